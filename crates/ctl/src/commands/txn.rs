//! `txn`: a transaction, read from standard input in three parts with empty lines between:
//! compares, and what is done if they hold or not.

use super::{del, get, put};
use crate::failure::Failure;
use crate::print::Answer;
use crate::session::Session;
use crate::words;
use clap::Command;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::{self, switch};
use quorate_cli::parse::parse_line;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, find};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_client::api::etcdserverpb::request_op::Request;
use quorate_client::api::etcdserverpb::{Compare, RequestOp, TxnRequest};
use quorate_go::number;
use quorate_go::quote::{quote, scan_quoted};
use std::io::{self, BufRead};

/// The definition.
pub fn command() -> Command {
    flags::command(
        "txn",
        "txn [options]",
        "Do several requests as one, on conditions",
    )
    .long_about(
        "Reads a transaction from standard input and does it as a whole, at one revision.

Three parts, each ended by an empty line: conditions; requests for when all of them hold; requests
for when one does not.

---
version(\"config\") = \"0\"

put config \"at first\"
put changes 1

get config

---

A condition compares ver (version), c (create), m (mod), val (value) or lease with =, !=, < or >.
A request is put, get or del with their flags.",
    )
    .arg(switch("interactive", "ask for the parts").short('i'))
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    if !invocation.given.arguments().is_empty() {
        return Err(Exit::bad_arguments("txn command does not accept argument"));
    }
    let session = Session::open(invocation).await?;
    let interactive = invocation.given.flag("interactive");
    let ask = |part: &str| match interactive {
        true => write_out(format!("{part}\n").as_bytes()),
        false => Ok(()),
    };
    ask("compares:")?;
    let mut compare = Vec::new();
    for line in part(&mut io::stdin().lock()) {
        compare.push(self::compare(&line?)?);
    }
    ask("success requests (get, put, del):")?;
    let success = operations().await?;
    ask("failure requests (get, put, del):")?;
    let failure = operations().await?;
    let request = TxnRequest {
        compare,
        success,
        failure,
    };
    // Not within the command's time, so that what was typed is not lost to a slow cluster.
    let response = session.client.call(Method::KVTxn, request).await;
    let response = response.map_err(|error| Exit::error(Failure::from(error)))?;
    session.print(&Answer::Txn(response))
}

async fn operations() -> Result<Vec<RequestOp>, Exit> {
    let mut operations = Vec::new();
    loop {
        let Some(line) = part(&mut io::stdin().lock()).next() else {
            return Ok(operations);
        };
        operations.push(operation(&line?).await?);
    }
}

/// The lines up to an empty one, without the blanks around them. An end of input before it is an
/// error.
fn part(input: &mut impl BufRead) -> impl Iterator<Item = Result<Vec<u8>, Exit>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let invalid = |reason: String| Exit::new(exit::INVALID_INPUT, reason);
        if let Err(error) = input.read_until(b'\n', &mut line) {
            return Some(Err(invalid(error.to_string())));
        }
        if line.last() != Some(&b'\n') {
            return Some(Err(invalid("EOF".to_owned())));
        }
        let line = line.trim_ascii();
        (!line.is_empty()).then(|| Ok(line.to_vec()))
    })
}

/// A line of the first part.
fn compare(line: &[u8]) -> Result<Compare, Exit> {
    let text = String::from_utf8_lossy(line).into_owned();
    let refused = |reason: String| Exit::new(exit::INVALID_INPUT, reason);
    let malformed = |more: &str| refused(format!("malformed comparison: {text}{more}"));
    let open = line
        .iter()
        .position(|byte| *byte == b'(')
        .ok_or_else(|| malformed(""))?;
    let target = String::from_utf8_lossy(&line[..open]).into_owned();
    let parts = Parts::scan(&line[open + 1..]);
    let (Some(key), Some(operator), Some(value)) = (&parts.key, &parts.operator, &parts.value)
    else {
        let quoted = |part: &Option<Vec<u8>>| quote(part.as_deref().unwrap_or_default());
        let operator = parts.operator.clone().unwrap_or_default();
        return Err(malformed(&format!(
            "; got {target}({}) {operator} {}",
            quoted(&parts.key),
            quoted(&parts.value)
        )));
    };
    let number = |base| {
        std::str::from_utf8(value)
            .ok()
            .and_then(|value| number::parse_i64(value, base).ok())
            .ok_or_else(|| refused(format!("invalid txn compare request: {text}")))
    };
    let (target, union) = match target.as_str() {
        "ver" | "version" => (CompareTarget::Version, TargetUnion::Version(number(10)?)),
        "c" | "create" => (
            CompareTarget::Create,
            TargetUnion::CreateRevision(number(10)?),
        ),
        "m" | "mod" => (CompareTarget::Mod, TargetUnion::ModRevision(number(10)?)),
        "val" | "value" => (
            CompareTarget::Value,
            TargetUnion::Value(value.clone().into()),
        ),
        "lease" => (CompareTarget::Lease, TargetUnion::Lease(number(16)?)),
        other => return Err(malformed(&format!(" (unknown target {other})"))),
    };
    let result = match operator.as_str() {
        "=" => CompareResult::Equal,
        "!=" => CompareResult::NotEqual,
        ">" => CompareResult::Greater,
        "<" => CompareResult::Less,
        other => return Err(malformed(&format!(" (unknown operator {other})"))),
    };
    Ok(Compare {
        result: result.into(),
        target: target.into(),
        key: key.clone().into(),
        target_union: Some(union),
        ..Compare::default()
    })
}

/// What stands behind the parenthesis, as far as it is well formed: `"key") operator "value"`.
struct Parts {
    key: Option<Vec<u8>>,
    operator: Option<String>,
    value: Option<Vec<u8>>,
}

impl Parts {
    fn scan(text: &[u8]) -> Parts {
        let mut parts = Parts {
            key: None,
            operator: None,
            value: None,
        };
        parts.fill(text);
        parts
    }

    fn fill(&mut self, text: &[u8]) -> Option<()> {
        let (key, rest) = scan_quoted(text.trim_ascii_start())?;
        self.key = Some(key);
        let rest = blank(rest.strip_prefix(b")")?)?;
        let end = rest
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(rest.len());
        let (operator, rest) = rest.split_at(end);
        self.operator = Some(String::from_utf8_lossy(operator).into_owned());
        let (value, _) = scan_quoted(blank(rest)?)?;
        self.value = Some(value);
        Some(())
    }
}

/// What follows one blank at least.
fn blank(text: &[u8]) -> Option<&[u8]> {
    let rest = text.trim_ascii_start();
    (rest.len() < text.len()).then_some(rest)
}

/// A line of the other parts.
async fn operation(line: &[u8]) -> Result<RequestOp, Exit> {
    let text = String::from_utf8_lossy(line).into_owned();
    let refused = |reason: &str| Exit::new(exit::INVALID_INPUT, format!("{reason}: {text}"));
    let words = words::split(line).ok_or_else(|| refused("invalid txn request"))?;
    let [name, arguments @ ..] = &words[..] else {
        return Err(refused("invalid txn compare request"));
    };
    if arguments.is_empty() {
        return Err(refused("invalid txn compare request"));
    }
    let all = Command::new("txn").subcommands([put::command(), get::command(), del::command()]);
    let found = find::find(&all, &[String::from_utf8_lossy(name).into_owned()]);
    let command = found
        .path
        .first()
        .and_then(|name| all.find_subcommand(name));
    let command = command.ok_or_else(|| refused("invalid txn request"))?;
    let given = parse_line(command, arguments)
        .ok()
        .filter(|given| !given.flag("help"))
        .ok_or_else(|| refused("invalid txn request"))?;
    let request = match command.get_name() {
        "put" => Request::RequestPut(put::request(&given, || None)?),
        "get" => Request::RequestRange(get::request(&given)?),
        _ => Request::RequestDeleteRange(del::request(&given).await?),
    };
    Ok(RequestOp {
        request: Some(request),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> Option<String> {
        compare(line.as_bytes()).err().and_then(|exit| exit.message)
    }

    #[test]
    fn compares_are_read() {
        let read = |line: &str| compare(line.as_bytes()).expect(line);
        let version = read(r#"ver("a") = "1""#);
        assert_eq!(version.target_union, Some(TargetUnion::Version(1)));
        assert_eq!(&version.key[..], b"a");
        let value = read(r#"val("z")   !=  "q\x41" and more"#);
        assert_eq!(value.result, i32::from(CompareResult::NotEqual));
        assert_eq!(value.target_union, Some(TargetUnion::Value("qA".into())));
        let lease = read(r#"lease("a") > "1f""#);
        assert_eq!(lease.target_union, Some(TargetUnion::Lease(31)));
    }

    #[test]
    fn wrong_compares_are_refused() {
        for (line, text) in [
            ("foo", "malformed comparison: foo"),
            (
                r#"ver("a" = "1""#,
                r#"malformed comparison: ver("a" = "1"; got ver("a")  """#,
            ),
            (
                r#"ver("a") = 1"#,
                r#"malformed comparison: ver("a") = 1; got ver("a") = """#,
            ),
            (
                r#"value("a")="1""#,
                r#"malformed comparison: value("a")="1"; got value("a")  """#,
            ),
            (
                r#"ver("a") = "x""#,
                r#"invalid txn compare request: ver("a") = "x""#,
            ),
            (
                r#"abc("a") = "1""#,
                r#"malformed comparison: abc("a") = "1" (unknown target abc)"#,
            ),
        ] {
            assert_eq!(refusal(line).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_part_ends_with_an_empty_line() {
        let mut input = &b"a\n  b \n\nc"[..];
        let lines: Vec<_> = part(&mut input).collect();
        assert_eq!(lines, [Ok(b"a".to_vec()), Ok(b"b".to_vec())]);
        assert_eq!(
            part(&mut input).next(),
            Some(Err(Exit::new(exit::INVALID_INPUT, "EOF")))
        );
    }

    #[tokio::test]
    async fn operations_are_read() {
        let of = async |line: &str| operation(line.as_bytes()).await.map(|op| op.request);
        match of("put 'x y' \"a\\tb\" --lease=1f").await {
            Ok(Some(Request::RequestPut(put))) => {
                assert_eq!(
                    (&put.key[..], &put.value[..], put.lease),
                    (&b"x y"[..], &b"a\tb"[..], 31)
                );
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            of("g a --prefix").await,
            Ok(Some(Request::RequestRange(_)))
        ));
        for (line, code) in [
            ("foo", exit::INVALID_INPUT),
            ("foo bar", exit::INVALID_INPUT),
            ("get a --xx", exit::INVALID_INPUT),
            ("put a", exit::BAD_ARGUMENTS),
            ("put --lease=zz a b", exit::BAD_ARGUMENTS),
        ] {
            assert_eq!(
                of(line).await.map_err(|exit| exit.code),
                Err(code),
                "{line}"
            );
        }
    }
}
