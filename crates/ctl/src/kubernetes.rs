//! Objects of Kubernetes as its API server stores them, made readable: `--decode=k8s`.
//!
//! Such a value is `k8s\0` and a protobuf message, runtime.Unknown: its kind, and the object's own
//! bytes, whose meaning is in the schema of that kind. Of those, what every object has can be read
//! without it: names, namespace, labels. Custom resources are stored as JSON. What is neither is
//! left as it is.
//!
//! Source: k8s.io/apimachinery, pkg/runtime/generated.proto and pkg/apis/meta/v1/generated.proto.

use crate::print::object::build;
use clap::Arg;
use prost::Message;
use quorate_cli::Given;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::text;
use quorate_client::api::mvccpb::KeyValue;
use quorate_go::json;

/// What values are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// Bytes.
    None,
    /// Objects of Kubernetes.
    Kubernetes,
}

impl Decoding {
    /// The flag that says it.
    pub fn flag() -> Arg {
        text(
            "decode",
            "",
            "show what values are: k8s (objects of Kubernetes)",
        )
    }

    /// What the flag says.
    pub fn of(given: &Given) -> Result<Decoding, Exit> {
        match given.text("decode").as_str() {
            "" => Ok(Decoding::None),
            "k8s" => Ok(Decoding::Kubernetes),
            other => Err(Exit::new(
                exit::BAD_FEATURE,
                format_args!("unknown decoding {other}, there is k8s"),
            )),
        }
    }

    /// Makes a value readable, if it is what it is taken for.
    pub fn apply(self, kv: &mut KeyValue) {
        if self == Decoding::Kubernetes
            && let Some(text) = describe(&kv.value)
        {
            kv.value = text.into_bytes().into();
        }
    }
}

const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
    #[prost(string, tag = "3")]
    content_encoding: String,
    #[prost(string, tag = "4")]
    content_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// What the first field of nearly every object is.
#[derive(Clone, PartialEq, Message)]
struct Object {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: std::collections::BTreeMap<String, String>,
}

/// The object in a line of JSON. `None` where the value is no stored object, or JSON already.
fn describe(value: &[u8]) -> Option<String> {
    let unknown = Unknown::decode(value.strip_prefix(MAGIC)?).ok()?;
    let kind = unknown.type_meta.clone().unwrap_or_default();
    let as_json = match unknown.content_type.as_str() {
        "" | "application/vnd.kubernetes.protobuf" => None,
        _ => String::from_utf8(unknown.raw.clone()).ok(),
    };
    Some(build(|o| {
        o.text("apiVersion", &kind.api_version)
            .text("kind", &kind.kind);
        if let Some(json) = as_json {
            o.raw("object", json.trim());
            return;
        }
        if let Some(metadata) = Object::decode(&unknown.raw[..])
            .ok()
            .and_then(|o| o.metadata)
        {
            o.raw("metadata", &of_metadata(&metadata));
        }
        o.number("protobufBytes", unknown.raw.len());
    }))
}

fn of_metadata(metadata: &ObjectMeta) -> String {
    build(|o| {
        o.text("name", &metadata.name)
            .text("namespace", &metadata.namespace)
            .text("uid", &metadata.uid);
        if !metadata.labels.is_empty() {
            let labels: Vec<String> = metadata
                .labels
                .iter()
                .map(|(name, value)| format!("{}:{}", json::string(name), json::string(value)))
                .collect();
            o.raw("labels", &format!("{{{}}}", labels.join(",")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(unknown: &Unknown) -> Vec<u8> {
        [MAGIC, &unknown.encode_to_vec()].concat()
    }

    fn pod() -> Unknown {
        let metadata = ObjectMeta {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            labels: [("app".to_owned(), "a<b".to_owned())].into(),
            ..ObjectMeta::default()
        };
        Unknown {
            type_meta: Some(TypeMeta {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
            }),
            raw: Object {
                metadata: Some(metadata),
            }
            .encode_to_vec(),
            ..Unknown::default()
        }
    }

    #[test]
    fn an_object_is_described() {
        assert_eq!(
            describe(&stored(&pod())).as_deref(),
            Some(
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","labels":{"app":"a\u003cb"}},"protobufBytes":28}"#
            )
        );
    }

    #[test]
    fn json_inside_is_shown() {
        let unknown = Unknown {
            raw: b"{\"a\":1}".to_vec(),
            content_type: "application/json".to_owned(),
            ..pod()
        };
        assert_eq!(
            describe(&stored(&unknown)).as_deref(),
            Some(r#"{"apiVersion":"v1","kind":"Pod","object":{"a":1}}"#)
        );
    }

    #[test]
    fn other_values_stay() {
        let mut cut = stored(&pod());
        cut.truncate(cut.len() - 3);
        for value in [&b""[..], b"{\"kind\":\"x\"}", b"k8s", &cut] {
            assert_eq!(describe(value), None);
        }
    }
}
