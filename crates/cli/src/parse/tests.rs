use super::*;
use crate::flags::{
    boolean, command, duration, exactly, int, one_of, required, switch, text, uint, word,
};

fn program() -> Program {
    let root = command("tool", "tool", "").args([
        text("form", "simple", "").short('w').global(true),
        text("at", "", "").global(true),
        duration("limit", "5s", "").global(true),
    ]);
    let root = root.subcommands([
        command("get", "get <key>", "").args([
            int("count", "0", ""),
            switch("prefix", ""),
            boolean("ask", "true", "").short('i'),
        ]),
        command("put", "put <key> <value>", "").args([text("lease", "0", "")]),
        command("lease", "lease", "").subcommand(command("grant", "grant <ttl>", "")),
        exactly(command("hash", "hash <file>", ""), 1).arg(uint("rev", "0", "")),
        one_of(command("shell", "shell [a|b]", ""), &["a", "b"]),
        command("move", "move", "").args([
            required(text("to", "", "")),
            required(text("with", "", "")),
            word("kind", &["x", "y"], "x", ""),
        ]),
        crate::flags::help_command(),
    ]);
    Program::new("tool", root, &[])
}

fn parsed(line: &[&str]) -> Parsed {
    let raw: Vec<OsString> = ["tool"].iter().chain(line).map(OsString::from).collect();
    parse(&program(), &raw)
}

fn run(line: &[&str]) -> Invocation {
    match parsed(line) {
        Parsed::Run(invocation) => *invocation,
        other => panic!("{line:?} became {other:?}"),
    }
}

fn refusal(line: &[&str]) -> String {
    match parsed(line) {
        Parsed::Wrong(text, 1) => text.lines().next().unwrap_or_default().to_owned(),
        other => panic!("{line:?} became {other:?}"),
    }
}

#[test]
fn the_definitions_are_sound() {
    program().root.debug_assert();
}

#[test]
fn flags_are_found_anywhere_and_the_last_wins() {
    let invocation = run(&[
        "--at",
        "x",
        "get",
        "k",
        "-w",
        "json",
        "--count=3",
        "e",
        "-w=table",
    ]);
    assert_eq!(invocation.path, ["get"]);
    assert_eq!(invocation.given.texts(), ["k", "e"]);
    assert_eq!(invocation.given.text("form"), "table");
    assert_eq!(invocation.given.text("at"), "x");
    assert_eq!(invocation.given.int("count"), 3);
    assert!(!run(&["get", "k", "--prefix=false"]).given.flag("prefix"));
    assert!(run(&["get", "k", "--prefix"]).given.is_set("prefix"));
    let before = run(&["--count", "0x10", "--at", "x", "get", "a", "lease"]);
    assert_eq!(before.given.int("count"), 16);
    assert_eq!(before.given.texts(), ["a", "lease"]);
    let glued = run(&["hash", "-wjson", "--rev=0x7", "--", "f"]);
    assert_eq!(glued.given.text("form"), "json");
    assert_eq!(glued.given.uint("rev"), 7);
    assert_eq!(glued.given.texts(), ["f"]);
}

#[test]
fn a_value_may_look_like_a_flag() {
    let invocation = run(&["put", "--lease", "-1", "--", "-k", "--v"]);
    assert_eq!(invocation.given.text("lease"), "-1");
    assert_eq!(invocation.given.texts(), ["-k", "--v"]);
    assert_eq!(run(&["get", "-"]).given.texts(), ["-"]);
}

#[test]
fn what_a_command_demands_is_asked_for_last() {
    let invocation = run(&["move", "--to", "a", "--with=b", "--kind=z"]);
    assert_eq!(invocation.given.text("with"), "b");
    // Whether the word is a known one is for the command to see.
    assert_eq!(invocation.given.text("kind"), "z");
    assert!(matches!(parsed(&["move", "-h"]), Parsed::Help(_)));
    assert_eq!(run(&["shell", "b"]).given.texts(), ["b"]);
}

#[test]
fn refusals_are_cobras() {
    for (line, text) in [
        (&["foo"][..], r#"unknown command "foo" for "tool""#),
        (&["get", "--foo"], "unknown flag: --foo"),
        (&["get", "--foo=1", "x"], "unknown flag: --foo"),
        (&["get", "--=x"], "bad flag syntax: --=x"),
        (&["get", "---x"], "bad flag syntax: ---x"),
        (&["get", "-x"], "unknown shorthand flag: 'x' in -x"),
        (&["get", "-vx"], "unknown shorthand flag: 'v' in -vx"),
        (&["put", "k", "-12"], "unknown shorthand flag: '1' in -12"),
        (&["get", "--count"], "flag needs an argument: --count"),
        (&["-w"], "flag needs an argument: 'w' in -w"),
        (
            &["get", "--count", "abc", "x"],
            r#"invalid argument "abc" for "--count" flag: strconv.ParseInt: parsing "abc": invalid syntax"#,
        ),
        (
            &["get", "--prefix=foo", "x"],
            r#"invalid argument "foo" for "--prefix" flag: strconv.ParseBool: parsing "foo": invalid syntax"#,
        ),
        (
            &["--limit=5", "get", "a"],
            r#"invalid argument "5" for "--limit" flag: time: missing unit in duration "5""#,
        ),
        (
            &["get", "--ask=no"],
            r#"invalid argument "no" for "-i, --ask" flag: strconv.ParseBool: parsing "no": invalid syntax"#,
        ),
        (
            &["get", "--help=maybe"],
            r#"invalid argument "maybe" for "-h, --help" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        (&["hash"], "accepts 1 arg(s), received 0"),
        (&["shell"], "accepts 1 arg(s), received 0"),
        (&["shell", "c"], r#"invalid argument "c" for "tool shell""#),
        (
            &["move", "--kind=x"],
            r#"required flag(s) "to", "with" not set"#,
        ),
        (&["move", "--to", "a"], r#"required flag(s) "with" not set"#),
    ] {
        assert_eq!(refusal(line), format!("Error: {text}"));
    }
}

#[test]
fn a_refusal_stands_above_the_usage_and_perhaps_below_it() {
    let raw = ["tool", "hahs"].map(OsString::from);
    let text = "unknown command \"hahs\" for \"tool\"\n\nDid you mean this?\n\thash\n\n";
    let once = format!("Error: {text}Run 'tool --help' for usage.\n");
    match parse(&program(), &raw) {
        Parsed::Wrong(page, 1) => assert_eq!(page, once),
        other => panic!("{other:?}"),
    }
    match parse(&program().repeating_errors(), &raw) {
        Parsed::Wrong(page, 1) => assert_eq!(page, format!("{once}Error: {text}")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_and_flags_ask_for_help() {
    for line in [
        &[][..],
        &["lease"],
        &["lease", "foo"],
        &["lease", "foo", "grant", "10"],
        &["get", "-h"],
        &["help", "get"],
    ] {
        assert!(matches!(parsed(line), Parsed::Help(_)), "{line:?}");
    }
    assert!(matches!(parsed(&["help", "foo"]), Parsed::Wrong(_, 0)));
}

#[test]
fn a_line_of_its_own_knows_its_flags_alone() {
    let put = command("put", "put", "").arg(switch("prev", ""));
    let line = |words: &[&str]| {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        parse_line(&put, &words)
    };
    let given = line(&["a", "--prev"]).expect("a line");
    assert!(given.flag("prev"));
    assert_eq!(given.texts(), ["a"]);
    assert_eq!(
        line(&["--at", "x"]).map(drop),
        Err("unknown flag: --at".to_owned())
    );
}
