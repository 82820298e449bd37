//! The groups of a task, partition by partition, and how they are kept.
//!
//! A partition is kept as a row of small batches: what changed with each transaction, and now and
//! then everything anew, when the changes have grown larger than the whole. Its head is a key that
//! counts the saves. Every save expects the head that it knows, so one who computed with groups that
//! another has changed meanwhile cannot commit.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use bytes::Bytes;
use sardonyx_queue::{Compression, Key, Segments, Transaction};

use super::encode_within;
use crate::group::{Grouping, Groups};

/// Fewer saved rows than this are not worth writing everything anew.
const ANEW_ROWS_MIN: usize = 4096;

pub(super) struct Grouped {
    grouping: Grouping,
    bytes_max: usize,
    partitions: BTreeMap<u16, Partition>,
}

struct Partition {
    groups: Groups,
    head: Option<Bytes>,
    n_saves: u64,
    saved: Vec<Key>,
    saved_rows: usize,
    is_changed: bool,
}

impl Grouped {
    pub(super) fn new(grouping: &Grouping, bytes_max: usize) -> Grouped {
        Grouped { grouping: grouping.clone(), bytes_max, partitions: BTreeMap::new() }
    }

    pub(super) fn has(&self, partition: u16) -> bool {
        self.partitions.contains_key(&partition)
    }

    pub(super) fn load(
        &mut self,
        partition: u16,
        head: Option<Bytes>,
        saved: &[(Key, Bytes)],
    ) -> Result<(), String> {
        let mut loaded = self.fresh();
        loaded.n_saves = number(head.as_ref());
        loaded.head = head;
        for (key, bytes) in saved {
            let batch = Segments::Encoded(bytes.clone()).decode();
            let batch = batch.map_err(|why| format!("saved groups are damaged: {why}"))?;
            loaded.groups.load(&batch)?;
            loaded.saved_rows += batch.num_rows();
            loaded.saved.push(key.clone());
        }
        self.partitions.insert(partition, loaded);
        Ok(())
    }

    pub(super) fn add(&mut self, partition: u16, batch: &RecordBatch) -> Result<(), String> {
        let fresh = self.fresh();
        let it = self.partitions.entry(partition).or_insert(fresh);
        it.is_changed = true;
        it.groups.add(batch)
    }

    fn fresh(&self) -> Partition {
        Partition {
            groups: self.grouping.groups(),
            head: None,
            n_saves: 0,
            saved: Vec::new(),
            saved_rows: 0,
            is_changed: false,
        }
    }

    pub(super) fn save(&mut self, transaction: &mut Transaction) -> Result<(), String> {
        for (at, partition) in &mut self.partitions {
            if std::mem::take(&mut partition.is_changed) {
                partition.save(*at, self.bytes_max, transaction)?;
            }
        }
        Ok(())
    }

    pub(super) fn emit(&mut self, only_changed: bool) -> Result<Vec<RecordBatch>, String> {
        let mut emitted = Vec::new();
        for partition in self.partitions.values_mut() {
            emitted.extend(partition.groups.emit(only_changed)?);
        }
        Ok(emitted)
    }
}

impl Partition {
    fn save(
        &mut self,
        at: u16,
        bytes_max: usize,
        transaction: &mut Transaction,
    ) -> Result<(), String> {
        let Some(changed) = self.groups.changed()? else { return Ok(()) };
        let (head, prefix) = keys(at);
        let rows = self.saved_rows + changed.num_rows();
        let is_anew = rows > ANEW_ROWS_MIN.max(2 * self.groups.len());
        let batch = match is_anew {
            true => {
                self.saved_rows = 0;
                transaction.puts.extend(self.saved.drain(..).map(|key| (key, None)));
                self.groups.snapshot()?.unwrap_or(changed)
            }
            false => changed,
        };
        self.n_saves += 1;
        self.saved_rows += batch.num_rows();
        let pieces = encode_within(&batch, Compression::None, bytes_max)?;
        for (piece, bytes) in pieces.into_iter().enumerate() {
            let key = format!("{prefix}{:020}-{piece:06}", self.n_saves);
            self.saved.push(key.clone());
            transaction.puts.push((key, Some(bytes)));
        }
        let was = self.head.replace(Bytes::from(self.n_saves.to_string()));
        transaction.expects.push((head.clone(), was));
        transaction.puts.push((head, self.head.clone()));
        Ok(())
    }
}

/// The key that counts the saves of a partition, and the prefix of what was saved.
pub(super) fn keys(partition: u16) -> (Key, Key) {
    (format!("groups/{partition:05}"), format!("groups/{partition:05}/"))
}

fn number(head: Option<&Bytes>) -> u64 {
    let text = head.and_then(|head| std::str::from_utf8(head).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use sardonyx_queue::{Owner, Place, Queues, Refused, Roster, Session};
    use serde_json::json;

    use super::*;
    use crate::{Registry, Terms};

    fn grouped() -> Grouped {
        let entry = json!({"type": "function", "fn": "count", "group-by": ["word"]});
        let terms = Terms::new("j", "t", &entry);
        Grouped::new(&Registry::built_in().grouped(&terms).unwrap(), 4096)
    }

    fn words(words: &[&str]) -> RecordBatch {
        let words = StringArray::from(words.to_vec());
        RecordBatch::try_from_iter([("word", Arc::new(words) as _)]).unwrap()
    }

    async fn session() -> Session {
        let place = Place { job: "j".into(), task: "t".into() };
        let owner = Owner { peer: "p".into(), epoch: 1 };
        let roster = Roster { at: 1, owners: vec![owner.clone()] };
        Queues::memory().session(&place, &owner, &roster).await.unwrap()
    }

    async fn load(session: &Session) -> Grouped {
        let (head, prefix) = keys(0);
        let (head, saved) =
            (session.get(&head).await.unwrap(), session.scan(&prefix).await.unwrap());
        let mut groups = grouped();
        groups.load(0, head, &saved).unwrap();
        groups
    }

    async fn save(session: &Session, groups: &mut Grouped) -> Result<(), Refused> {
        let mut transaction = Transaction::default();
        groups.save(&mut transaction).unwrap();
        session.commit(transaction).await
    }

    #[tokio::test]
    async fn who_computed_with_old_groups_cannot_save_them() {
        let session = session().await;
        let (mut mine, mut theirs) = (load(&session).await, load(&session).await);
        mine.add(0, &words(&["a", "b"])).unwrap();
        theirs.add(0, &words(&["a"])).unwrap();
        save(&session, &mut theirs).await.unwrap();
        let refused = save(&session, &mut mine).await.unwrap_err();
        assert!(matches!(refused, Refused::Changed(_)), "{refused:?}");
        // What was saved once is found again, and nothing else.
        let mut again = load(&session).await;
        let emitted = again.emit(false).unwrap();
        assert_eq!(emitted.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    }

    #[tokio::test]
    async fn many_saves_are_written_anew_and_come_to_the_same() {
        let session = session().await;
        let all: Vec<String> = (0..3_000).map(|n| format!("w{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut groups = load(&session).await;
        for _ in 0..7 {
            groups.add(0, &words(&all)).unwrap();
            save(&session, &mut groups).await.unwrap();
        }
        let saved = session.scan(&keys(0).1).await.unwrap();
        assert!(saved.len() > 7, "{} pieces are not cut small", saved.len());
        let saves: std::collections::BTreeSet<_> = saved
            .iter()
            .filter_map(|(key, _)| key.rsplit_once('-'))
            .map(|(save, _)| save)
            .collect();
        assert!(saves.len() < 4, "{} saves are kept", saves.len());
        let emitted = load(&session).await.emit(false).unwrap();
        assert_eq!(emitted.iter().map(RecordBatch::num_rows).sum::<usize>(), 3_000);
    }
}
