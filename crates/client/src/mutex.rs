//! A lock that programs on all machines share.
//!
//! It excludes others as far as the lease is kept: a process that slept beyond it may believe to
//! hold what another one has. [`Lock::revision`] grows from holder to holder; whoever guards the
//! resource refuses one that is below the greatest it has seen, or, for keys of the same cluster,
//! writes with [`Lock::is_held`] as the condition.

use crate::Result;
use crate::queue::Place;
use crate::session::Session;
use bytes::Bytes;
use quorate_api::etcdserverpb::Compare;

/// A lock's name, for a session. All of a session share the lock: it excludes other sessions.
#[derive(Debug)]
pub struct Mutex<'a> {
    session: &'a Session,
    name: Bytes,
}

impl Session {
    /// The lock of this name: the keys under `NAME/`.
    pub fn mutex(&self, name: impl Into<Bytes>) -> Mutex<'_> {
        Mutex {
            session: self,
            name: name.into(),
        }
    }
}

impl Mutex<'_> {
    /// Waits for the lock. If this is dropped before, the place in line is given up.
    pub async fn lock(&self) -> Result<Lock> {
        let entered = Place::enter(self.session, &self.name, Bytes::new()).await?;
        let place = entered.place;
        if entered
            .first
            .is_some_and(|first| first.create_revision == place.revision)
        {
            return Ok(Lock { place });
        }
        place.turn(self.session, &self.name).await?;
        Ok(Lock { place })
    }

    /// Takes the lock if it is free.
    pub async fn try_lock(&self) -> Result<Option<Lock>> {
        let entered = Place::enter(self.session, &self.name, Bytes::new()).await?;
        let place = entered.place;
        match entered.first {
            Some(first) if first.create_revision != place.revision => {
                place.give_back().await?;
                Ok(None)
            }
            _ => Ok(Some(Lock { place })),
        }
    }
}

/// A lock that is held. It is freed by [`Lock::unlock`], when this is dropped (by a task of the
/// runtime, some time after), or with the session.
#[derive(Debug)]
pub struct Lock {
    place: Place,
}

impl Lock {
    /// The key that stands for holding it.
    pub fn key(&self) -> &Bytes {
        &self.place.key
    }

    /// Greater than that of every holder before: a token to fence with.
    pub fn revision(&self) -> i64 {
        self.place.revision
    }

    /// The condition for transactions that must only happen while the lock is held.
    pub fn is_held(&self) -> Compare {
        self.place.is_held()
    }

    /// Frees the lock; after an `Ok` it is free, unless others of the session hold it.
    pub async fn unlock(self) -> Result<()> {
        self.place.give_back().await
    }
}
