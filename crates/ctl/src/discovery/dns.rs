//! SRV records from the system's name servers.
//!
//! Source: RFC 2782, and Go's resolver for the texts of errors.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, rdata::SRV};
use hickory_resolver::system_conf::read_system_conf;
use quorate_go::system;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const PORT: u16 = 53;

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The host, without the dot at its end.
    pub target: String,
    /// The port.
    pub port: u16,
}

/// Why there are no records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lookup {name} on {server}: {reason}")]
pub struct Error {
    name: String,
    server: SocketAddr,
    reason: String,
}

/// The records of a name, in the order in which they are to be used.
pub async fn lookup_srv(name: &str) -> Result<Vec<Record>, Error> {
    // Where none is configured, there may be a name server on this machine.
    let (config, options) =
        read_system_conf().unwrap_or_else(|_| (local(), ResolverOpts::default()));
    lookup_at(config, options, name).await
}

const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn local() -> ResolverConfig {
    let server = NameServerConfig::udp_and_tcp(THIS_MACHINE);
    ResolverConfig::from_parts(None, Vec::new(), vec![server])
}

async fn lookup_at(
    config: ResolverConfig,
    options: ResolverOpts,
    name: &str,
) -> Result<Vec<Record>, Error> {
    let first = config.name_servers().first();
    let server = SocketAddr::new(first.map_or(THIS_MACHINE, |server| server.ip), PORT);
    let failed = |error: NetError| Error {
        name: name.to_owned(),
        server,
        reason: text(&error),
    };
    let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(failed)?;
    let found = resolver.srv_lookup(name).await.map_err(failed)?;
    let mut records: Vec<&SRV> = found
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(service) => Some(service),
            _ => None,
        })
        .collect();
    records.sort_by_key(|record| (record.priority, u16::MAX - record.weight));
    Ok(records
        .into_iter()
        .map(|record| Record {
            target: record.target.to_string().trim_end_matches('.').to_owned(),
            port: record.port,
        })
        .collect())
}

/// A failure in the words of Go's resolver.
fn text(error: &NetError) -> String {
    match error {
        error if error.is_no_records_found() => "no such host".to_owned(),
        NetError::Timeout => "i/o timeout".to_owned(),
        NetError::Dns(_) => "server misbehaving".to_owned(),
        NetError::Io(error) => system::text(error),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::config::ConnectionConfig;
    use std::net::UdpSocket;

    const NAME: &str = "_etcd-client._tcp.example.com.";

    /// An answer to a query: its id and question, and these records with the question's name.
    fn answer(query: &[u8], code: u8, records: &[(u16, u16, u16, &str)]) -> Vec<u8> {
        let question_end = 12 + NAME.len() + 1 + 4;
        let mut out = query[..2].to_vec();
        out.extend([0x81, 0x80 | code, 0, 1]);
        out.extend(u16::try_from(records.len()).expect("few").to_be_bytes());
        out.extend([0; 4]);
        out.extend(&query[12..question_end]);
        for (priority, weight, port, target) in records {
            let mut data: Vec<u8> = [priority, weight, port]
                .into_iter()
                .flat_map(|number| number.to_be_bytes())
                .collect();
            for label in target.split('.') {
                data.push(u8::try_from(label.len()).expect("short"));
                data.extend(label.bytes());
            }
            data.push(0);
            out.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60]);
            out.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
            out.extend(data);
        }
        out
    }

    /// Looks the name up at a server that answers once.
    fn looked_up(code: u8, records: &[(u16, u16, u16, &str)]) -> Result<Vec<Record>, Error> {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = server.local_addr().expect("an address").port();
        let mut connection = ConnectionConfig::udp();
        connection.port = port;
        let server_config = NameServerConfig::new(THIS_MACHINE, true, vec![connection]);
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server_config]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut query = [0; 512];
                let (length, from) = server.recv_from(&mut query).expect("a query");
                let answer = answer(&query[..length], code, records);
                server.send_to(&answer, from).expect("to be sent");
            });
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(lookup_at(config, ResolverOpts::default(), NAME))
        })
    }

    #[test]
    fn records_come_in_the_order_of_their_use() {
        let records = [
            (10, 5, 2379, "c.example.com"),
            (0, 1, 2379, "b.example.com"),
            (0, 9, 12379, "a.example.com"),
        ];
        let found = looked_up(0, &records).expect("records");
        let texts: Vec<String> = found
            .iter()
            .map(|record| format!("{}:{}", record.target, record.port))
            .collect();
        assert_eq!(
            texts,
            [
                "a.example.com:12379",
                "b.example.com:2379",
                "c.example.com:2379"
            ]
        );
    }

    #[test]
    fn a_name_that_is_not_there_is_said_as_by_go() {
        let error = looked_up(3, &[]).expect_err("no records");
        assert_eq!(
            error.to_string(),
            format!("lookup {NAME} on 127.0.0.1:53: no such host")
        );
    }
}
