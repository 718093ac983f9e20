//! Transactions: compares, paths, and what an error leaves behind.

use super::*;
use crate::store::Applied;
use crate::{Answer, Config, Store, lease, open};
use quorate_api::etcdserverpb::{
    CompactionRequest, InternalRaftRequest, LeaseGrantRequest, RangeRequest,
};
use quorate_disk::faulty::FaultyDisk;
use std::path::Path;
use std::sync::Arc;

struct Fixture {
    store: Store,
    index: u64,
}

impl Fixture {
    fn new() -> Fixture {
        let disk: Arc<dyn quorate_disk::Disk> = Arc::new(FaultyDisk::new(1));
        disk.create_dir_all(Path::new("/d")).unwrap();
        let lease = lease::Config {
            min_ttl_s: 2,
            checkpoint_interval_ms: None,
        };
        let (store, _) = open(
            disk,
            Path::new("/d/db"),
            Config {
                quota_bytes: 0,
                lease,
            },
        )
        .unwrap();
        Fixture { store, index: 0 }
    }

    fn apply(&mut self, request: InternalRaftRequest) -> Result<Answer, api::Error> {
        self.index += 1;
        self.store
            .apply(
                Applied {
                    index: self.index,
                    term: 1,
                },
                &request,
                0,
            )
            .unwrap()
    }

    fn put(&mut self, put: PutRequest) -> Result<PutResponse, api::Error> {
        match self.apply(InternalRaftRequest {
            put: Some(put),
            ..Default::default()
        })? {
            Answer::Put(response) => Ok(response),
            other => panic!("{other:?}"),
        }
    }

    fn txn(&mut self, txn: TxnRequest) -> Result<TxnResponse, api::Error> {
        match self.apply(InternalRaftRequest {
            txn: Some(txn),
            ..Default::default()
        })? {
            Answer::Txn(response) => Ok(response),
            other => panic!("{other:?}"),
        }
    }
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..Default::default()
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

fn range_op(key: &str, revision: i64) -> RequestOp {
    op(Request::RequestRange(RangeRequest {
        key: key.to_owned().into(),
        revision,
        ..Default::default()
    }))
}

fn compare(key: &str, target: CompareTarget, result: CompareResult, union: TargetUnion) -> Compare {
    Compare {
        key: key.to_owned().into(),
        target: target as i32,
        result: result as i32,
        target_union: Some(union),
        ..Default::default()
    }
}

fn outcome(fixture: &mut Fixture, compare: Compare) -> bool {
    let txn = TxnRequest {
        compare: vec![compare],
        ..Default::default()
    };
    fixture.txn(txn).unwrap().succeeded
}

/// Grants the lease `id` for 100 seconds.
fn grant(fixture: &mut Fixture, id: i64) {
    let grant = LeaseGrantRequest { id, ttl: 100 };
    fixture
        .apply(InternalRaftRequest {
            lease_grant: Some(grant),
            ..Default::default()
        })
        .unwrap();
}

#[test]
fn a_missing_key_has_no_value_and_zeros_otherwise() {
    let mut fixture = Fixture::new();
    for result in [
        CompareResult::Equal,
        CompareResult::NotEqual,
        CompareResult::Greater,
        CompareResult::Less,
    ] {
        let value = TargetUnion::Value("".into());
        assert!(!outcome(
            &mut fixture,
            compare("k", CompareTarget::Value, result, value)
        ));
    }
    let version = |v| {
        compare(
            "k",
            CompareTarget::Version,
            CompareResult::Equal,
            TargetUnion::Version(v),
        )
    };
    assert!(outcome(&mut fixture, version(0)));
    assert!(!outcome(&mut fixture, version(1)));
}

#[test]
fn every_target_is_compared() {
    let mut fixture = Fixture::new();
    grant(&mut fixture, 7);
    fixture.put(put("k", "a")).unwrap();
    fixture
        .put(PutRequest {
            lease: 7,
            ..put("k", "b")
        })
        .unwrap();
    use CompareResult::{Equal, Greater, Less, NotEqual};
    for (target, result, union, holds) in [
        (CompareTarget::Version, Equal, TargetUnion::Version(2), true),
        (
            CompareTarget::Create,
            Equal,
            TargetUnion::CreateRevision(2),
            true,
        ),
        (
            CompareTarget::Mod,
            Greater,
            TargetUnion::ModRevision(2),
            true,
        ),
        (CompareTarget::Mod, Less, TargetUnion::ModRevision(3), false),
        (
            CompareTarget::Value,
            NotEqual,
            TargetUnion::Value("a".into()),
            true,
        ),
        (
            CompareTarget::Value,
            Less,
            TargetUnion::Value("c".into()),
            true,
        ),
        (CompareTarget::Lease, Equal, TargetUnion::Lease(7), true),
        (CompareTarget::Lease, NotEqual, TargetUnion::Lease(7), false),
    ] {
        let compare = compare("k", target, result, union);
        assert_eq!(outcome(&mut fixture, compare.clone()), holds, "{compare:?}");
    }
    // Over a range, every key must fit.
    fixture.put(put("l", "z")).unwrap();
    let ranged = |result, value: &'static str| Compare {
        range_end: "m".into(),
        ..compare(
            "k",
            CompareTarget::Value,
            result,
            TargetUnion::Value(value.into()),
        )
    };
    assert!(outcome(&mut fixture, ranged(Greater, "a")));
    assert!(!outcome(&mut fixture, ranged(Equal, "z")));
}

#[test]
fn reads_see_the_writes_before_them_and_all_share_a_revision() {
    let mut fixture = Fixture::new();
    fixture.put(put("old", "1")).unwrap();
    let delete = DeleteRangeRequest {
        key: "old".into(),
        prev_kv: true,
        ..Default::default()
    };
    let nested = TxnRequest {
        success: vec![op(Request::RequestPut(put("deep", "2")))],
        ..Default::default()
    };
    let response = fixture
        .txn(TxnRequest {
            success: vec![
                op(Request::RequestPut(put("new", "1"))),
                range_op("new", 0),
                op(Request::RequestDeleteRange(delete)),
                op(Request::RequestTxn(nested)),
                range_op("deep", 0),
            ],
            ..Default::default()
        })
        .unwrap();
    assert_eq!(response.header.unwrap().revision, 3);
    let ranged = |i: usize| match &response.responses[i].response {
        Some(Response::ResponseRange(range)) => range.kvs[0].mod_revision,
        other => panic!("{other:?}"),
    };
    assert_eq!((ranged(1), ranged(4)), (3, 3));
    match &response.responses[2].response {
        Some(Response::ResponseDeleteRange(deleted)) => {
            assert_eq!(
                (deleted.deleted, &deleted.prev_kvs[0].value[..]),
                (1, &b"1"[..])
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.store.revision(), 3);
}

#[test]
fn an_error_changes_nothing() {
    let mut fixture = Fixture::new();
    fixture.put(put("k", "v")).unwrap();
    let with = |last: RequestOp| TxnRequest {
        success: vec![op(Request::RequestPut(put("a", "b"))), last],
        ..Default::default()
    };
    let no_lease = PutRequest {
        lease: 99,
        ..put("x", "y")
    };
    let no_key = PutRequest {
        ignore_value: true,
        ..put("x", "")
    };
    for (last, error) in [
        (op(Request::RequestPut(no_lease)), api::Error::LeaseNotFound),
        (op(Request::RequestPut(no_key)), api::Error::KeyNotFound),
        (range_op("k", 100), api::Error::FutureRev),
    ] {
        assert_eq!(fixture.txn(with(last)).unwrap_err(), error);
        assert_eq!(fixture.store.revision(), 2);
    }
    let compaction = CompactionRequest {
        revision: 2,
        physical: false,
    };
    fixture.put(put("k", "w")).unwrap();
    fixture
        .apply(InternalRaftRequest {
            compaction: Some(compaction),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(
        fixture.txn(with(range_op("k", 1))).unwrap_err(),
        api::Error::Compacted
    );
    assert_eq!(fixture.store.revision(), 3);
}

#[test]
fn detached_by_a_put_without_the_lease_and_kept_with_ignore_lease() {
    let mut fixture = Fixture::new();
    grant(&mut fixture, 7);
    fixture
        .put(PutRequest {
            lease: 7,
            ..put("a", "1")
        })
        .unwrap();
    fixture
        .put(PutRequest {
            lease: 7,
            ..put("b", "1")
        })
        .unwrap();
    fixture.put(put("a", "2")).unwrap();
    let kept = PutRequest {
        ignore_lease: true,
        prev_kv: true,
        ..put("b", "2")
    };
    assert_eq!(fixture.put(kept).unwrap().prev_kv.unwrap().lease, 7);
    let lessor = fixture.store.lessor();
    assert_eq!((lessor.holder(b"a"), lessor.holder(b"b")), (0, 7));
}

#[test]
fn a_put_behind_a_deletion_to_the_end_inherits_nothing_and_stays_whole() {
    let mut fixture = Fixture::new();
    fixture.put(put("k", "v")).unwrap();
    let delete = DeleteRangeRequest {
        key: "k".into(),
        range_end: "\0".into(),
        ..Default::default()
    };
    let again = PutRequest {
        ignore_value: true,
        ..put("k", "")
    };
    let response = fixture
        .txn(TxnRequest {
            success: vec![
                op(Request::RequestDeleteRange(delete)),
                op(Request::RequestPut(again)),
                range_op("k", 0),
            ],
            ..Default::default()
        })
        .unwrap();
    match &response.responses[2].response {
        Some(Response::ResponseRange(range)) => {
            assert_eq!((range.kvs[0].version, range.kvs[0].value.len()), (1, 0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn questions_about_authentication_pass_and_changes_to_it_stop_the_member() {
    let mut fixture = Fixture::new();
    let question = InternalRaftRequest {
        auth_status: Some(Default::default()),
        ..Default::default()
    };
    assert!(matches!(fixture.apply(question), Ok(Answer::Nothing)));
    let change = InternalRaftRequest {
        auth_user_add: Some(Default::default()),
        ..Default::default()
    };
    fixture.index += 1;
    let at = Applied {
        index: fixture.index,
        term: 1,
    };
    assert!(fixture.store.apply(at, &change, 0).is_err());
}
