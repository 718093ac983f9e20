//! URLs of members, as Go parses, spells and compares them.
//!
//! A member's id is a hash over the spelling of its URLs, and members compare URLs as text, so the
//! spelling is part of the protocol: the scheme in lower case, all else as it was given.
//! Source: Go's net/url and etcd's client/pkg/types.

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerUrl {
    /// In lower case.
    pub scheme: String,
    user: Option<String>,
    /// Host and port as written; empty where there is no authority.
    pub host: String,
    path: String,
    /// Behind `?`, where there is one.
    query: Option<String>,
    fragment: Option<String>,
    /// Whether `//` stands before host and path.
    has_authority: bool,
}

/// Takes a URL apart; `None` where Go's url.Parse fails.
pub fn parse(text: &str) -> Option<PeerUrl> {
    if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return None;
    }
    let (rest, fragment) = cut(text, '#');
    let (scheme, rest) = split_scheme(rest)?;
    let (rest, query) = cut(rest, '?');
    let mut url = PeerUrl {
        scheme: scheme.to_ascii_lowercase(),
        user: None,
        host: String::new(),
        path: String::new(),
        query: query.map(str::to_owned),
        fragment: fragment.map(str::to_owned),
        has_authority: false,
    };
    let Some(behind) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) else {
        let first = rest.split('/').next().unwrap_or_default();
        if scheme.is_empty() && first.contains(':') {
            return None;
        }
        url.path = rest.to_owned();
        return Some(url);
    };
    url.has_authority = true;
    let path_at = behind.find('/').unwrap_or(behind.len());
    let (authority, path) = behind.split_at(path_at);
    url.path = path.to_owned();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user.to_owned()), host),
        None => (None, authority),
    };
    if !is_host(host) {
        return None;
    }
    url.user = user;
    url.host = host.to_owned();
    Some(url)
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, behind)) => (before, Some(behind)),
        None => (text, None),
    }
}

/// Scheme and the rest; an empty scheme where there is none. `None`: it begins with a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

/// Whether this may stand as a URL's host and port.
fn is_host(host: &str) -> bool {
    let bad = |c: char| matches!(c, ' ' | '"' | '\\' | '^' | '`' | '{' | '|' | '}' | '%');
    if let Some(rest) = host.strip_prefix('[') {
        let Some((inside, port)) = rest.split_once(']') else {
            return false;
        };
        return !inside.contains(' ') && is_optional_port(port);
    }
    let port = host.rfind(':').map_or("", |at| &host[at..]);
    !host.contains(bad) && is_optional_port(port)
}

fn is_optional_port(port: &str) -> bool {
    match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => port.is_empty(),
    }
}

impl PeerUrl {
    /// Host and port, as Go's net.SplitHostPort finds them.
    pub fn host_and_port(&self) -> Option<(&str, &str)> {
        if let Some(rest) = self.host.strip_prefix('[') {
            let (host, port) = rest.split_once(']')?;
            return Some((host, port.strip_prefix(':')?));
        }
        let (host, port) = self.host.rsplit_once(':')?;
        (!host.contains(':')).then_some((host, port))
    }

    /// What stands behind host and port.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is reached through a socket in the file system.
    pub fn is_unix(&self) -> bool {
        self.scheme == "unix" || self.scheme == "unixs"
    }
}

impl std::fmt::Display for PeerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.has_authority {
            f.write_str("//")?;
        }
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}{}", self.host, self.path)?;
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        match &self.fragment {
            Some(fragment) if !fragment.is_empty() => write!(f, "#{fragment}"),
            _ => Ok(()),
        }
    }
}

/// The URLs of a member to be, spelled and in order; `None` where one is none, or there are none.
/// That one is given twice is not looked at.
pub fn member_urls(given: &[String]) -> Option<Vec<String>> {
    let mut urls = Vec::with_capacity(given.len());
    for text in given {
        let url = parse(text.trim())?;
        let is_good = match url.scheme.as_str() {
            "http" | "https" => url.host_and_port().is_some() && url.path.is_empty(),
            "unix" | "unixs" => true,
            _ => false,
        };
        if !is_good {
            return None;
        }
        urls.push(url.to_string());
    }
    urls.sort();
    (!urls.is_empty()).then_some(urls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(urls: &[&str]) -> Option<Vec<String>> {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        member_urls(&urls)
    }

    #[test]
    fn good_ones_are_spelled_and_sorted() {
        assert_eq!(
            checked(&[" http://b:2380", "HTTP://a:1", "https://[::1]:2"]).unwrap(),
            ["http://a:1", "http://b:2380", "https://[::1]:2"]
        );
        for kept in [
            "http://127.0.0.1:42382?x=&y",
            "http://user:word@host:1",
            "http://host:",
            "unix://localhost:2",
            "unix:///run/x.sock",
            "unix:x",
        ] {
            assert_eq!(checked(&[kept]).unwrap(), [kept]);
        }
        // etcd takes it.
        assert_eq!(checked(&["http://a:1", "http://a:1"]).unwrap().len(), 2);
    }

    #[test]
    fn bad_ones_are_refused() {
        assert_eq!(checked(&[]), None);
        for bad in [
            "",
            "http://foo",
            "foo:1",
            "http://h:1/",
            "http://h:1/path",
            "ftp://h:1",
            "http://h:port",
            "http://a:b:1",
            "http://h h:1",
            "http://::1:2380",
            "://h:1",
            "http:h:1",
            "http://h:1\u{7f}",
            "http://[::1:1",
            "http://[::1]",
        ] {
            assert_eq!(checked(&["http://a:1", bad]), None, "{bad}");
        }
    }

    #[test]
    fn host_and_port() {
        let split = |text: &str| {
            let url = parse(text).unwrap();
            url.host_and_port()
                .map(|(host, port)| (host.to_owned(), port.to_owned()))
        };
        assert_eq!(split("http://h:1"), Some(("h".into(), "1".into())));
        assert_eq!(split("http://[::1]:1"), Some(("::1".into(), "1".into())));
        assert_eq!(split("http://h"), None);
    }
}
