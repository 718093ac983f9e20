//! `get`: reads a key or a range.

use crate::failure::Failure;
use crate::kubernetes::Decoding;
use crate::print::{Answer, Format};
use crate::ranges::{self, OPEN_END};
use crate::session::Session;
use clap::Command;
use quorate_cli::Given;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::{int, switch, text};
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_client::api::etcdserverpb::{RangeRequest, RangeResponse, RangeStreamResponse};
use quorate_go::quote::quote;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "get",
        "get [options] <key> [range_end]",
        "Read a key or a range of keys",
    )
    .args([
        text(
            "consistency",
            "l",
            "l: linearizable, s: serializable (from one member, perhaps old)",
        ),
        text(
            "order",
            "",
            "order of the results: ASCEND or DESCEND (ASCEND if not given)",
        ),
        text(
            "sort-by",
            "",
            "what results are ordered by: CREATE, KEY, MODIFY, VALUE or VERSION",
        ),
        int("limit", "0", "most results that are wanted"),
        switch("prefix", "all keys that begin with <key>"),
        switch("from-key", "all keys from <key> on, by bytes"),
        int("rev", "0", "revision to read at"),
        switch("keys-only", "no values"),
        switch(
            "count-only",
            "only how many there are (with --write-out=fields)",
        ),
        switch("print-value-only", "no keys in the \"simple\" form"),
        int("min-create-rev", "0", "least revision of creation"),
        int("max-create-rev", "0", "greatest revision of creation"),
        int("min-mod-rev", "0", "least revision of modification"),
        int("max-mod-rev", "0", "greatest revision of modification"),
        switch("stream", "let the answer come in pieces (RangeStream)"),
        Decoding::flag(),
    ])
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let given = &invocation.given;
    let request = request(given)?;
    let decoding = Decoding::of(given)?;
    let session = Session::open(invocation).await?;
    let response = match given.flag("stream") {
        true => stream(&session, request).await,
        false => session.call(Method::KVRange, request).await,
    };
    let mut response: RangeResponse = response.map_err(Exit::error)?;
    let format = session.printer.format;
    if given.flag("count-only") && format != Format::Fields {
        return Err(Exit::bad_arguments(
            "--count-only is only for `--write-out=fields`",
        ));
    }
    let mut printer = session.printer;
    printer.value_only = given.flag("print-value-only");
    if printer.value_only && format != Format::Simple {
        return Err(Exit::bad_arguments(
            "print-value-only is only for `--write-out=simple`",
        ));
    }
    response.kvs.iter_mut().for_each(|kv| decoding.apply(kv));
    printer.print(&Answer::Get(response))
}

/// The pieces as one answer.
async fn stream(session: &Session, request: RangeRequest) -> Result<RangeResponse, Failure> {
    let whole = async {
        let mut pieces = session
            .client
            .receive::<_, RangeStreamResponse>(Method::KVRangeStream, request)
            .await?;
        let mut whole = RangeResponse::default();
        while let Some(piece) = pieces.next().await? {
            let piece = piece.range_response.unwrap_or_default();
            whole.header = piece.header.or(whole.header);
            whole.kvs.extend(piece.kvs);
            whole.more |= piece.more;
            whole.count = piece.count.max(whole.count);
        }
        Ok(whole)
    };
    session.within(whole).await
}

/// The request that the flags and arguments say.
pub fn request(given: &Given) -> Result<RangeRequest, Exit> {
    let arguments = given.arguments();
    let (prefix, from_key) = (given.flag("prefix"), given.flag("from-key"));
    let key = arguments.first().cloned().ok_or_else(|| {
        Exit::bad_arguments(
            "get command needs one argument as key and an optional argument as range_end",
        )
    })?;
    if prefix && from_key {
        return Err(both("--prefix", "--from-key"));
    }
    if given.flag("keys-only") && given.flag("count-only") {
        return Err(both("--keys-only", "--count-only"));
    }
    let consistency = given.text("consistency");
    let serializable = is_serializable(&consistency, &consistency)?;
    let (key, range_end) = range(key, arguments.get(1), prefix, from_key)?;
    let order = sort_order(&given.text("order"))?;
    let target = sort_target(&given.text("sort-by"))?;
    let order = match order {
        // The order that results have anyway.
        SortOrder::Ascend if target == SortTarget::Key => SortOrder::None,
        order => order,
    };
    bounds(
        "Create",
        given.int("min-create-rev"),
        given.int("max-create-rev"),
    )?;
    bounds("Mod", given.int("min-mod-rev"), given.int("max-mod-rev"))?;
    let at_least_0 = |name: &str| given.int(name).max(0);
    Ok(RangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        limit: given.int("limit"),
        revision: at_least_0("rev"),
        sort_order: order.into(),
        sort_target: target.into(),
        serializable,
        keys_only: given.flag("keys-only"),
        count_only: given.flag("count-only"),
        min_mod_revision: at_least_0("min-mod-rev"),
        max_mod_revision: at_least_0("max-mod-rev"),
        min_create_revision: at_least_0("min-create-rev"),
        max_create_revision: at_least_0("max-create-rev"),
    })
}

/// Two flags that exclude each other.
pub fn both(one: &str, other: &str) -> Exit {
    Exit::bad_arguments(format_args!(
        "`{one}` and `{other}` cannot be set at the same time, choose one"
    ))
}

/// Key and range end of a command that takes `<key> [range_end]`, `--prefix` and `--from-key`.
pub fn range(
    key: Vec<u8>,
    range_end: Option<&Vec<u8>>,
    prefix: bool,
    from_key: bool,
) -> Result<(Vec<u8>, Vec<u8>), Exit> {
    let all = key.is_empty() && (prefix || from_key);
    match range_end {
        Some(_) if prefix || from_key => Err(Exit::bad_arguments(
            "too many arguments, only accept one argument when `--prefix` or `--from-key` is set",
        )),
        Some(end) => Ok((key, end.clone())),
        None if all => Ok((vec![0], OPEN_END.to_vec())),
        None if from_key => Ok((key, OPEN_END.to_vec())),
        None if prefix => {
            let end = ranges::prefix_end(&key);
            Ok((key, end))
        }
        None => Ok((key, Vec::new())),
    }
}

/// Whether a consistency is the serializable one; `named` is what a refusal names.
pub fn is_serializable(consistency: &str, named: &str) -> Result<bool, Exit> {
    match consistency {
        "s" => Ok(true),
        "l" => Ok(false),
        _ => {
            let named = quote(named.as_bytes());
            Err(bad_feature(format!("unknown consistency flag {named}")))
        }
    }
}

fn sort_order(text: &str) -> Result<SortOrder, Exit> {
    match text.to_uppercase().as_str() {
        "" => Ok(SortOrder::None),
        "ASCEND" => Ok(SortOrder::Ascend),
        "DESCEND" => Ok(SortOrder::Descend),
        _ => Err(bad_feature(format!("bad sort order {text}"))),
    }
}

fn sort_target(text: &str) -> Result<SortTarget, Exit> {
    match text.to_uppercase().as_str() {
        "" | "KEY" => Ok(SortTarget::Key),
        "CREATE" => Ok(SortTarget::Create),
        "MODIFY" => Ok(SortTarget::Mod),
        "VALUE" => Ok(SortTarget::Value),
        "VERSION" => Ok(SortTarget::Version),
        _ => Err(bad_feature(format!("bad sort target {text}"))),
    }
}

fn bounds(of: &str, least: i64, greatest: i64) -> Result<(), Exit> {
    match greatest > 0 && least > greatest {
        true => Err(bad_feature(format!(
            "getMin{of}Rev(={least}) > getMax{of}Rev(={greatest})"
        ))),
        false => Ok(()),
    }
}

fn bad_feature(message: String) -> Exit {
    Exit::new(exit::BAD_FEATURE, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_cli::parse::parse_line;

    fn of(line: &[&str]) -> Result<RangeRequest, Exit> {
        let words: Vec<Vec<u8>> = line.iter().map(|word| word.as_bytes().to_vec()).collect();
        request(&parse_line(&command(), &words).expect("a line"))
    }

    #[test]
    fn ranges_are_as_said() {
        let range = |line: &[&str]| {
            let request = of(line).expect("a request");
            (request.key.to_vec(), request.range_end.to_vec())
        };
        assert_eq!(range(&["a"]), (b"a".to_vec(), vec![]));
        assert_eq!(range(&["a", "b"]), (b"a".to_vec(), b"b".to_vec()));
        assert_eq!(range(&["a", "--prefix"]), (b"a".to_vec(), b"b".to_vec()));
        assert_eq!(range(&["", "--prefix"]), (vec![0], vec![0]));
        assert_eq!(range(&["a", "--from-key"]), (b"a".to_vec(), vec![0]));
        assert_eq!(range(&["", "--from-key"]), (vec![0], vec![0]));
        assert_eq!(range(&[""]), (vec![], vec![]));
    }

    #[test]
    fn contradictions_are_refused() {
        for (line, code) in [
            (&[][..], exit::BAD_ARGUMENTS),
            (&["a", "b", "--prefix"], exit::BAD_ARGUMENTS),
            (&["a", "--prefix", "--from-key"], exit::BAD_ARGUMENTS),
            (&["a", "--keys-only", "--count-only"], exit::BAD_ARGUMENTS),
            (&["a", "--consistency=q"], exit::BAD_FEATURE),
            (&["a", "--order=q"], exit::BAD_FEATURE),
            (&["a", "--sort-by=q"], exit::BAD_FEATURE),
            (
                &["a", "--min-mod-rev=3", "--max-mod-rev=1"],
                exit::BAD_FEATURE,
            ),
        ] {
            assert_eq!(
                of(line).map(drop).map_err(|exit| exit.code),
                Err(code),
                "{line:?}"
            );
        }
    }
}
