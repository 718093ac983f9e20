//! What the operating system knows of this process. Source: proc(5).
//!
//! What cannot be read is left out of the page.

use super::text::{Kind, Page};
use std::fs;

/// Numbers of /proc/self, where there is one.
#[derive(Debug, Default, PartialEq)]
struct Process {
    cpu_s: Option<f64>,
    start_s: Option<f64>,
    virtual_bytes: Option<f64>,
    resident_bytes: Option<f64>,
    open_files: Option<f64>,
    /// Soft limits; infinity where there is none.
    files_max: Option<f64>,
    virtual_bytes_max: Option<f64>,
    received_bytes: Option<f64>,
    transmitted_bytes: Option<f64>,
}

/// Writes all that is known.
pub fn write(page: &mut Page) {
    let process = read();
    let all: [(&str, Kind, &str, Option<f64>); 11] = [
        (
            "process_cpu_seconds_total",
            Kind::Counter,
            "User and system time used, in seconds.",
            process.cpu_s,
        ),
        (
            "process_max_fds",
            Kind::Gauge,
            "Files that may be open.",
            process.files_max,
        ),
        (
            "process_open_fds",
            Kind::Gauge,
            "Files that are open.",
            process.open_files,
        ),
        (
            "process_network_receive_bytes_total",
            Kind::Counter,
            "Bytes received by the process's network namespace.",
            process.received_bytes,
        ),
        (
            "process_network_transmit_bytes_total",
            Kind::Counter,
            "Bytes sent by the process's network namespace.",
            process.transmitted_bytes,
        ),
        (
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Resident memory, in bytes.",
            process.resident_bytes,
        ),
        (
            "process_start_time_seconds",
            Kind::Gauge,
            "When the process began, in seconds of Unix time.",
            process.start_s,
        ),
        (
            "process_virtual_memory_bytes",
            Kind::Gauge,
            "Address space, in bytes.",
            process.virtual_bytes,
        ),
        (
            "process_virtual_memory_max_bytes",
            Kind::Gauge,
            "Address space that may be used, in bytes.",
            process.virtual_bytes_max,
        ),
        (
            "os_fd_used",
            Kind::Gauge,
            "Files that are open.",
            process.open_files,
        ),
        (
            "os_fd_limit",
            Kind::Gauge,
            "Files that may be open.",
            process.files_max,
        ),
    ];
    for (name, kind, help, value) in all {
        if let Some(value) = value {
            page.single(name, kind, help, value);
        }
    }
}

fn read() -> Process {
    let mut process = Process::default();
    let file = |path| fs::read_to_string(path).ok();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let page_bytes = rustix::param::page_size() as f64;
    if let Some(stat) = file("/proc/self/stat") {
        read_stat(&mut process, &stat, ticks, page_bytes);
    }
    if let (Some(since_boot), Some(stat)) = (process.start_s, file("/proc/stat")) {
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "));
        let boot: Option<f64> = boot.and_then(|seconds| seconds.trim().parse().ok());
        process.start_s = boot.map(|boot| boot + since_boot);
    }
    if let Some(limits) = file("/proc/self/limits") {
        process.files_max = limit(&limits, "Max open files");
        process.virtual_bytes_max = limit(&limits, "Max address space");
    }
    if let Some(net) = file("/proc/self/net/dev") {
        let column = |at| Some(interfaces(&net, at));
        (process.received_bytes, process.transmitted_bytes) = (column(0), column(8));
    }
    process.open_files = fs::read_dir("/proc/self/fd")
        .ok()
        // The directory itself is open while it is read.
        .map(|open| open.count().saturating_sub(1) as f64);
    process
}

/// /proc/self/stat: the name in parentheses may hold anything; the third field follows it. The
/// start is since the system's.
fn read_stat(process: &mut Process, stat: &str, ticks: f64, page_bytes: f64) {
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return;
    };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| -> Option<f64> { fields.get(field - 3)?.parse().ok() };
    process.cpu_s = number(14).zip(number(15)).map(|(u, s)| (u + s) / ticks);
    process.start_s = number(22).map(|start| start / ticks);
    process.virtual_bytes = number(23);
    process.resident_bytes = number(24).map(|pages| pages * page_bytes);
}

/// A soft limit of /proc/self/limits.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// Sum of a column of /proc/self/net/dev over all interfaces.
fn interfaces(net: &str, column: usize) -> f64 {
    net.lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(_, numbers)| numbers.split_whitespace().nth(column)?.parse::<f64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_fields() {
        let mut process = Process::default();
        let fields: Vec<String> = (4..=24).map(|field| (field * 100).to_string()).collect();
        let stat = format!("7 (a) b) S {}", fields.join(" "));
        read_stat(&mut process, &stat, 100.0, 4096.0);
        assert_eq!(process.cpu_s, Some(29.0));
        assert_eq!(process.start_s, Some(22.0));
        assert_eq!(process.virtual_bytes, Some(2300.0));
        assert_eq!(process.resident_bytes, Some(2400.0 * 4096.0));
    }

    #[test]
    fn limits_and_interfaces() {
        let limits = "Max open files            1024    4096    files\nMax address space  unlimited unlimited bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(u64::MAX as f64));
        let net =
            "Inter-|\n face |bytes\n lo: 10 1 0 0 0 0 0 0 20 1 0\n eth0: 5 1 0 0 0 0 0 0 7 1 0\n";
        assert_eq!((interfaces(net, 0), interfaces(net, 8)), (15.0, 27.0));
    }
}
