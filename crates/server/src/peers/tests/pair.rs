//! Two transports.

use super::*;
use std::os::unix::net::UnixListener;

#[test]
fn members_find_each_other_again() {
    let one = Member::start(0xb1);
    let two = Member::start(0xb2);
    one.transport.set_peer(two.id, vec![two.url()]);
    two.transport.set_peer(one.id, vec![one.url()]);
    one.wait_for(Told::Kin(two.id, true));
    one.transport.send(vec![heartbeat(one.id, two.id)]);
    assert_eq!(two.messages(1), [heartbeat(one.id, two.id)]);
    two.transport.send(vec![heartbeat(two.id, one.id)]);
    assert_eq!(one.messages(1), [heartbeat(two.id, one.id)]);

    let address = two.address;
    two.transport.stop();
    drop(two);
    // Whoever comes next may be of another kind.
    one.wait_for(Told::Kin(0xb2, false));
    let two = Member::start_with(0xb2, false, TcpListener::bind(address).unwrap());
    two.transport.set_peer(one.id, vec![one.url()]);
    one.wait_for(Told::Active(0xb2, true));
    one.transport.send(vec![append(one.id, two.id, 1)]);
    assert_eq!(two.messages(1), [append(one.id, two.id, 1)]);

    one.transport.remove_peer(two.id);
    one.wait_for(Told::Active(0xb2, false));
    one.transport.stop();
    // What comes after the end is nobody's.
    one.transport.send(vec![heartbeat(one.id, two.id)]);
    one.transport.set_peer(9, vec![]);
}

#[test]
fn a_message_for_somebody_else_is_answered_as_one_of_a_removed_member() {
    let one = Member::start(0xc1);
    let other = Member::start(0xc2);
    // There is nobody yet to send it to.
    one.transport.send(vec![heartbeat(one.id, 0xc3)]);
    one.transport.set_peer(0xc3, vec![other.url()]);
    one.transport.send(vec![heartbeat(one.id, 0xc3)]);
    one.wait_for(Told::Failed(Failure::Removed));
}

#[test]
fn unix_sockets_do_too() {
    let dir = std::env::temp_dir().join(format!("quorate-peers-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("m0");
    let _not_there = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, told) = channel();
    let host = Arc::new(Notes {
        told: Mutex::new(sender),
        full: false,
    });
    let settings = Settings {
        member_id: 0xd1,
        cluster_id: CLUSTER,
        advertise_peer_urls: vec![],
        snapshot_dir: DIR.into(),
        disk: Arc::new(FaultyDisk::new(1)),
        dial_timeout: PATIENCE,
    };
    let listeners = vec![Listener::Unix(listener)];
    let transport = Transport::start(settings, host, Arc::new(Echo), listeners).unwrap();
    let other = Member::start(0xd2);
    let url = format!("unix://{}", path.display());
    other.transport.set_peer(0xd1, vec![url.clone()]);
    transport.set_peer(0xd2, vec![other.url()]);
    other.transport.send(vec![heartbeat(0xd2, 0xd1)]);
    loop {
        if let Told::Messages(messages) = told.recv_timeout(PATIENCE).unwrap() {
            assert_eq!(messages, [heartbeat(0xd2, 0xd1)]);
            break;
        }
    }
    let request = super::super::client::Request::get(vec![url], "/version", PATIENCE);
    let response = wait(other.transport.client().request(request)).unwrap();
    assert_eq!(response.body, "/version");
    transport.stop();
    std::fs::remove_dir_all(&dir).unwrap();
}
