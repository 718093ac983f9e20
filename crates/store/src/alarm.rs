//! Active alarms, by member and kind.
//!
//! The bucket's key is the encoded AlarmMember, its value empty.

use crate::Error;
use crate::buckets::{BucketId, Edits};
use prost::Message;
use quorate_api::etcdserverpb::{AlarmMember, AlarmType};
use std::collections::BTreeSet;

/// The alarms that are active.
#[derive(Clone, Debug, Default)]
pub struct Alarms {
    active: BTreeSet<(i32, u64)>,
}

impl Alarms {
    /// Takes in an alarm from the file.
    pub fn restore(&mut self, key: &[u8]) -> Result<(), Error> {
        let alarm =
            AlarmMember::decode(key).map_err(|e| Error::corrupt("alarm", key, e.to_string()))?;
        self.active.insert((alarm.alarm, alarm.member_id));
        Ok(())
    }

    /// Raises an alarm; afterwards it is active, whether it was before or not.
    pub fn activate(&mut self, member_id: u64, alarm: i32, edits: &mut Edits) -> AlarmMember {
        let member = AlarmMember { member_id, alarm };
        if self.active.insert((alarm, member_id)) {
            edits.put(BucketId::Alarm, &member.encode_to_vec(), b"");
        }
        member
    }

    /// Takes an alarm back; `None` where it was not active.
    pub fn deactivate(
        &mut self,
        member_id: u64,
        alarm: i32,
        edits: &mut Edits,
    ) -> Option<AlarmMember> {
        let member = AlarmMember { member_id, alarm };
        self.active.remove(&(alarm, member_id)).then(|| {
            edits.delete(BucketId::Alarm, &member.encode_to_vec());
            member
        })
    }

    /// The alarms of a kind, of all kinds for NONE.
    pub fn of_kind(&self, kind: i32) -> Vec<AlarmMember> {
        self.active
            .iter()
            .filter(|(alarm, _)| kind == AlarmType::None as i32 || *alarm == kind)
            .map(|&(alarm, member_id)| AlarmMember { member_id, alarm })
            .collect()
    }

    /// Whether a member has raised this kind.
    pub fn any(&self, kind: AlarmType) -> bool {
        self.active.iter().any(|(alarm, _)| *alarm == kind as i32)
    }
}
