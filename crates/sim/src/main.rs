//! `quorate-sim`: runs seeds. `cargo xtask sim` is its usual caller.

#![allow(clippy::print_stdout, reason = "it is a command-line tool")]

use quorate_sim::run::run;
fn main() {
    let mut args = std::env::args().skip(1);
    let from: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(0);
    let n: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(1);
    let print = args.next().is_some();
    for seed in from..from + n {
        let began = std::time::Instant::now();
        let outcome = run(seed, None, print);
        println!("{outcome:?} {:?}", began.elapsed());
    }
}
