//! The method table: every rpc of every service, generated from the descriptors.
//!
//! A transport resolves a path to a [`Method`] once; everything behind it works with the id.

macro_rules! methods {
    ($($id:ident, $path:literal, $input:literal, $output:literal, $client:literal, $server:literal;)*) => {
        /// An rpc.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Method { $($id,)* }

        impl Method {
            /// Every method, in the order of its id.
            pub const ALL: &'static [Method] = &[$(Method::$id,)*];

            /// The HTTP/2 path, `/package.Service/Name`.
            pub const fn path(self) -> &'static str {
                match self { $(Method::$id => $path,)* }
            }

            /// Full name of the request's message type.
            pub const fn input(self) -> &'static str {
                match self { $(Method::$id => $input,)* }
            }

            /// Full name of the answer's message type.
            pub const fn output(self) -> &'static str {
                match self { $(Method::$id => $output,)* }
            }

            /// Whether the client sends a stream of messages.
            pub const fn client_streaming(self) -> bool {
                match self { $(Method::$id => $client,)* }
            }

            /// Whether the server answers with a stream of messages.
            pub const fn server_streaming(self) -> bool {
                match self { $(Method::$id => $server,)* }
            }

            /// The method with this path.
            pub fn from_path(path: &str) -> Option<Method> {
                match path { $($path => Some(Method::$id),)* _ => None }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/methods.rs"));

impl Method {
    /// The full name of the service, `package.Service`.
    pub fn service(self) -> &'static str {
        self.split().0
    }

    /// The rpc's name without its service.
    pub fn name(self) -> &'static str {
        self.split().1
    }

    fn split(self) -> (&'static str, &'static str) {
        let path = &self.path()[1..];
        path.split_once('/')
            .expect("a path has a service and a name, see build.rs")
    }

    /// Whether a service of this full name exists.
    pub fn knows_service(service: &str) -> bool {
        Method::ALL.iter().any(|method| method.service() == service)
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn every_path_resolves_to_its_method() {
        assert!(Method::ALL.len() > 50);
        for (id, method) in Method::ALL.iter().enumerate() {
            assert_eq!(*method as usize, id);
            assert_eq!(Method::from_path(method.path()), Some(*method));
        }
    }

    #[test]
    fn range_stream_streams_out_only() {
        let method = Method::from_path("/etcdserverpb.KV/RangeStream").unwrap();
        assert!(method.server_streaming() && !method.client_streaming());
        assert_eq!(method.service(), "etcdserverpb.KV");
        assert_eq!(method.name(), "RangeStream");
    }

    #[test]
    fn an_unknown_path_is_nobodys() {
        assert_eq!(Method::from_path("/etcdserverpb.KV/Nope"), None);
        assert!(Method::knows_service("v3lockpb.Lock"));
        assert!(!Method::knows_service("v3lockpb"));
    }
}
