//! Messages in protobuf's text format, in a line.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, Value};
use quorate_api::etcdserverpb::InternalRaftRequest;
use quorate_go::quote::quote;
use std::sync::LazyLock;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(quorate_api::DESCRIPTORS).expect("the embedded descriptors are sound")
});

/// What stands for a password.
const REMOVED: &str = "<value removed>";

/// A request, without passwords.
pub fn request(mut request: InternalRaftRequest) -> String {
    if let Some(change) = &mut request.auth_user_change_password
        && !change.password.is_empty()
    {
        change.password = REMOVED.into();
    }
    if let Some(add) = &mut request.auth_user_add
        && !add.password.is_empty()
    {
        add.password = REMOVED.into();
    }
    if let Some(authenticate) = &mut request.authenticate
        && !authenticate.password.is_empty()
    {
        authenticate.password = REMOVED.into();
    }
    message("etcdserverpb.InternalRaftRequest", &request)
}

/// A message of this name.
pub fn message<M: Message>(name: &str, message: &M) -> String {
    let kind = POOL.get_message_by_name(name);
    let kind = kind.expect("the descriptors have all messages that are printed");
    match DynamicMessage::decode(kind, &message.encode_to_vec()[..]) {
        Ok(dynamic) => fields(&dynamic),
        // Both were made of the same .proto files.
        Err(error) => unreachable!("{name} cannot be read again: {error}"),
    }
}

fn fields(message: &DynamicMessage) -> String {
    let mut parts = Vec::new();
    // As the .proto file has them, which need not be the order of their numbers.
    let mut set: Vec<_> = message.fields().collect();
    set.sort_by_key(|(field, _)| field.path().last().copied());
    for (field, set) in set {
        let name = field.name();
        match set {
            Value::List(items) => {
                parts.extend(items.iter().map(|item| part(name, &field, item)));
            }
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries
                    .iter()
                    .map(|(key, item)| {
                        format!(
                            "{name}:{{key:{} value:{}}}",
                            map_key(key),
                            value(&field, item)
                        )
                    })
                    .collect();
                entries.sort();
                parts.extend(entries);
            }
            one => parts.push(part(name, &field, one)),
        }
    }
    parts.join(" ")
}

fn part(name: &str, field: &FieldDescriptor, set: &Value) -> String {
    format!("{name}:{}", value(field, set))
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => quote(key.as_bytes()),
    }
}

fn value(field: &FieldDescriptor, set: &Value) -> String {
    match set {
        Value::Bool(set) => set.to_string(),
        Value::I32(set) => set.to_string(),
        Value::I64(set) => set.to_string(),
        Value::U32(set) => set.to_string(),
        Value::U64(set) => set.to_string(),
        Value::F32(set) => set.to_string(),
        Value::F64(set) => set.to_string(),
        Value::String(set) => quote(set.as_bytes()),
        Value::Bytes(set) => format!("\"{}\"", octal(set)),
        Value::EnumNumber(number) => match field.kind() {
            Kind::Enum(kind) => match kind.get_value(*number) {
                Some(known) => known.name().to_owned(),
                None => number.to_string(),
            },
            _ => number.to_string(),
        },
        Value::Message(inner) => format!("{{{}}}", fields(inner)),
        Value::List(_) | Value::Map(_) => unreachable!("a value within a field is a single one"),
    }
}

/// Bytes as protobuf's text format writes them.
pub fn octal(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            32..127 => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}
