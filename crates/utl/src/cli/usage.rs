//! Usage texts in cobra's layout.

use super::command::{Command, Flag, HELP, Kind};

/// Names of commands are padded at least to this.
const NAME_WIDTH_MIN: usize = 11;

/// How the command is called.
pub fn path_name(path: &[&Command], program: &str) -> String {
    let names = path[1..].iter().map(|command| command.name);
    [program]
        .into_iter()
        .chain(names)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The usage text. `with_help`: whether the flag for help is listed.
pub fn text(path: &[&Command], program: &str, with_help: bool) -> String {
    let command = *path.last().expect("a path begins with the root");
    let own = program != crate::ETCD_NAME;
    let name = path_name(path, program);
    let mut out = String::from("Usage:\n");
    if command.run.is_some() || command.name == "help" {
        out.push_str("  ");
        out.push_str(&name);
        if !command.arguments.is_empty() {
            out.push(' ');
            out.push_str(command.arguments);
        }
        if command.flags_in_usage {
            out.push_str(" [flags]");
        }
        out.push('\n');
    }
    let shown: Vec<&Command> = command
        .commands
        .iter()
        .filter(|inner| own || !inner.own)
        .collect();
    if !shown.is_empty() {
        out.push_str(&format!("  {name} [command]\n\nAvailable Commands:\n"));
        let longest = shown.iter().map(|inner| inner.name.len()).max();
        let width = longest.unwrap_or(0).max(NAME_WIDTH_MIN);
        for inner in &shown {
            let short = inner.short.replace("etcdutl", program);
            out.push_str(&format!("  {:width$} {short}\n", inner.name));
        }
    }
    let called = match path {
        [_root] => program,
        _ => command.name,
    };
    let help = format!("help for {called}");
    let mut local: Vec<(&Flag, &str)> =
        command.flags.iter().map(|flag| (flag, flag.help)).collect();
    if with_help {
        local.push((&HELP, &help));
    }
    local.sort_by_key(|(flag, _)| flag.name);
    out.push_str("\nFlags:\n");
    out.push_str(&flag_lines(&local));
    if path.len() > 1 {
        let inherited: Vec<(&Flag, &str)> =
            path[0].flags.iter().map(|flag| (flag, flag.help)).collect();
        out.push_str("\nGlobal Flags:\n");
        out.push_str(&flag_lines(&inherited));
    }
    if !shown.is_empty() {
        out.push_str(&format!(
            "\nUse \"{name} [command] --help\" for more information about a command.\n"
        ));
    }
    out
}

fn flag_lines(flags: &[(&Flag, &str)]) -> String {
    let heads: Vec<String> = flags
        .iter()
        .map(|(flag, _)| {
            let letter = match flag.short {
                Some(letter) => format!("-{letter}, "),
                None => "    ".to_owned(),
            };
            let kind = match flag.kind {
                Kind::Bool => "",
                Kind::Text => " string",
                Kind::Int => " int",
                Kind::Uint => " uint",
                Kind::Duration => " duration",
            };
            format!("  {letter}--{}{kind}", flag.name)
        })
        .collect();
    let width = heads.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    for (head, (flag, help)) in heads.iter().zip(flags) {
        let default = match (flag.kind, flag.default) {
            (Kind::Bool, "false") | (Kind::Text, "") | (_, "0") => String::new(),
            (Kind::Text, text) => format!(" (default \"{text}\")"),
            (_, text) => format!(" (default {text})"),
        };
        out.push_str(&format!("{head:width$}   {help}{default}\n"));
    }
    out
}
