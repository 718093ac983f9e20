//! Objects in JSON as Go's encoding/json writes them: fields in their order, nothing between them,
//! zero values left out where the field says so.

use quorate_go::json::{bytes, string};
use std::fmt::{Display, Write};

/// What can be an object.
pub trait Fields {
    /// Adds the fields in their order.
    fn fields(&self, object: &mut Object);
}

/// An object that is being written.
#[derive(Debug)]
pub struct Object {
    out: String,
}

/// The object of a value.
pub fn object<T: Fields + ?Sized>(value: &T) -> String {
    build(|object| value.fields(object))
}

/// The object that `fill` fills.
pub fn build(fill: impl FnOnce(&mut Object)) -> String {
    let mut object = Object {
        out: String::from("{"),
    };
    fill(&mut object);
    object.out.push('}');
    object.out
}

/// A list of what is JSON already.
pub fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

impl Object {
    /// A field with a value that is JSON already.
    pub fn raw(&mut self, name: &str, json: &str) -> &mut Object {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        write!(self.out, "\"{name}\":{json}").expect("writing to a String cannot fail");
        self
    }

    /// A number; left out when zero.
    pub fn number<N: Display + Default + PartialEq>(&mut self, name: &str, n: N) -> &mut Object {
        match n == N::default() {
            true => self,
            false => self.raw(name, &n.to_string()),
        }
    }

    /// A number that is there even when zero.
    pub fn every_number(&mut self, name: &str, n: impl Display) -> &mut Object {
        self.raw(name, &n.to_string())
    }

    /// A boolean; left out when false.
    pub fn flag(&mut self, name: &str, flag: bool) -> &mut Object {
        match flag {
            true => self.raw(name, "true"),
            false => self,
        }
    }

    /// A string; left out when empty.
    pub fn text(&mut self, name: &str, text: &str) -> &mut Object {
        match text {
            "" => self,
            _ => self.raw(name, &string(text)),
        }
    }

    /// Bytes; left out when empty.
    pub fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Object {
        match value {
            [] => self,
            _ => self.raw(name, &bytes(value)),
        }
    }

    /// A message; left out when there is none.
    pub fn message<T: Fields>(&mut self, name: &str, value: Option<&T>) -> &mut Object {
        match value {
            Some(value) => self.raw(name, &object(value)),
            None => self,
        }
    }

    /// Messages; left out when there are none.
    pub fn messages<T: Fields>(&mut self, name: &str, values: &[T]) -> &mut Object {
        match values {
            [] => self,
            _ => self.raw(name, &list(values.iter().map(object))),
        }
    }

    /// Strings; left out when there are none.
    pub fn texts(&mut self, name: &str, values: &[String]) -> &mut Object {
        match values {
            [] => self,
            _ => self.raw(name, &list(values.iter().map(|text| string(text)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_values_are_left_out() {
        let json = build(|o| {
            o.number("a", 0u64)
                .number("b", 7i64)
                .flag("c", false)
                .text("d", "");
            o.bytes("e", b"").bytes("f", b"foo").every_number("g", 0);
        });
        assert_eq!(json, r#"{"b":7,"f":"Zm9v","g":0}"#);
    }
}
