//! A role's permissions in the simple form.

use crate::ranges;
use quorate_client::api::authpb::{Permission, permission};

/// Two lists, of what may be read and what may be written.
pub fn write(role: &str, permissions: &[Permission], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("Role {role}\n").as_bytes());
    let everything = Permission {
        range_end: vec![0].into(),
        perm_type: permission::Type::Readwrite.into(),
        ..Permission::default()
    };
    // The role root may do all and has it nowhere written.
    let permissions = match (role, permissions) {
        ("root", []) => std::slice::from_ref(&everything),
        _ => permissions,
    };
    list("KV Read:", permissions, permission::Type::Read, out);
    list("KV Write:", permissions, permission::Type::Write, out);
}

fn list(title: &str, permissions: &[Permission], kind: permission::Type, out: &mut Vec<u8>) {
    out.extend_from_slice(title.as_bytes());
    out.push(b'\n');
    let wanted = [i32::from(kind), permission::Type::Readwrite.into()];
    for permission in permissions {
        if wanted.contains(&permission.perm_type) {
            out.push(b'\t');
            range(&permission.key, &permission.range_end, out);
            out.push(b'\n');
        }
    }
}

fn range(key: &[u8], range_end: &[u8], out: &mut Vec<u8>) {
    match range_end {
        [] => out.extend_from_slice(key),
        [0] => out.extend_from_slice(&[b"[", key, b", <open ended>"].concat()),
        end => out.extend_from_slice(&[b"[", key, b", ", end, b")"].concat()),
    }
    if !range_end.is_empty() && !key.is_empty() && ranges::prefix_end(key) == range_end {
        out.extend_from_slice(&[b" (prefix ", key, b")"].concat());
    }
}
