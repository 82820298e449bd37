//! The groups of a task, partition by partition, and how they are kept.
//!
//! A partition is kept as a row of small batches: what changed with each transaction, and now and
//! then everything anew, when the changes have grown larger than the whole. Then the row begins again
//! with its first key: a stream saves for months, and some queues remember every key that there ever
//! was. Its head is a key that counts the saves. Every save expects the head that it knows, so one who
//! computed with groups that another has changed meanwhile cannot commit.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use bytes::Bytes;
use sardonyx_queue::{Compression, Key, Segments, Transaction};

use super::encode_within;
use crate::group::{Grouping, Groups};

/// Fewer saved rows than this are not worth writing everything anew.
const ANEW_ROWS_MIN: usize = 1024;

/// A save costs as much as so many of its rows: whoever takes over reads one after the other.
const SAVE_ROWS: usize = 64;

pub(super) struct Grouped {
    grouping: Grouping,
    bytes_max: usize,
    partitions: BTreeMap<u16, Partition>,
}

struct Partition {
    groups: Groups,
    head: Option<Bytes>,
    n_saves: u64,
    /// How many keys there are, and how many of them have everything as it was then.
    n_keys: usize,
    n_whole: usize,
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
        (loaded.n_saves, loaded.n_whole) = head.as_ref().map_or(Ok((0, 0)), numbers)?;
        loaded.head = head;
        let (_, prefix) = keys(partition);
        for (index, (key, bytes)) in saved.iter().enumerate() {
            if *key != key_of(&prefix, index) {
                return Err(format!("saved groups are damaged: {key} is not number {index}"));
            }
            let batch = Segments::Encoded(bytes.clone()).decode();
            let batch = batch.map_err(|why| format!("saved groups are damaged: {why}"))?;
            loaded.groups.load(&batch)?;
            loaded.saved_rows += batch.num_rows();
        }
        loaded.n_keys = saved.len();
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
            n_keys: 0,
            n_whole: 0,
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
        let n_before = self.n_keys;
        let is_anew = self.cost() + changed.num_rows() > ANEW_ROWS_MIN.max(2 * self.groups.len());
        let batch = match is_anew {
            true => {
                (self.n_keys, self.saved_rows) = (0, 0);
                self.groups.snapshot()?.unwrap_or(changed)
            }
            false => changed,
        };
        self.n_saves += 1;
        self.saved_rows += batch.num_rows();
        for bytes in encode_within(&batch, Compression::None, bytes_max)? {
            transaction.puts.push((key_of(&prefix, self.n_keys), Some(bytes)));
            self.n_keys += 1;
        }
        if is_anew {
            self.n_whole = self.n_keys;
            let over = (self.n_keys..n_before).map(|index| (key_of(&prefix, index), None));
            transaction.puts.extend(over);
        }
        let now = Bytes::from(format!("{} {}", self.n_saves, self.n_whole));
        let was = self.head.replace(now);
        transaction.expects.push((head.clone(), was));
        transaction.puts.push((head, self.head.clone()));
        Ok(())
    }

    /// What it would cost to read all that is saved, in rows.
    fn cost(&self) -> usize {
        self.saved_rows + SAVE_ROWS * self.n_keys.saturating_sub(self.n_whole)
    }
}

/// The key that counts the saves of a partition, and the prefix of what was saved.
pub(super) fn keys(partition: u16) -> (Key, Key) {
    (format!("groups/{partition:05}"), format!("groups/{partition:05}/"))
}

fn key_of(prefix: &str, index: usize) -> Key {
    format!("{prefix}{index:08}")
}

/// What a head says: how many saves there were, and with how many keys the last one began that has
/// everything.
fn numbers(head: &Bytes) -> Result<(u64, usize), String> {
    let numbers = std::str::from_utf8(head).ok().and_then(|text| {
        let (n_saves, n_whole) = text.split_once(' ')?;
        Some((n_saves.parse().ok()?, n_whole.parse().ok()?))
    });
    numbers.ok_or_else(|| format!("saved groups are damaged: their head is {head:?}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray as _, StringArray};
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
        let rows = saved.iter().map(|(_, bytes)| {
            Segments::Encoded(bytes.clone()).decode().expect("what was saved").num_rows()
        });
        let n_rows: usize = rows.sum();
        assert!(n_rows < 4 * 3_000, "{n_rows} rows are kept of 3,000");
        let emitted = load(&session).await.emit(false).unwrap();
        assert_eq!(emitted.iter().map(RecordBatch::num_rows).sum::<usize>(), 3_000);
    }

    /// A stream that counts few words for months: some queues remember the names of all keys that there
    /// ever were, so they must be few in all, whoever saves and however often it changes hands.
    #[tokio::test]
    async fn few_groups_have_few_keys_however_often_they_are_saved() {
        let session = session().await;
        let mut names = std::collections::BTreeSet::new();
        let mut groups = load(&session).await;
        for n in 0..2_000 {
            if n % 7 == 0 {
                groups = load(&session).await;
            }
            groups.add(0, &words(&["a", "b", "c"])).unwrap();
            let mut transaction = Transaction::default();
            groups.save(&mut transaction).unwrap();
            names.extend(transaction.puts.iter().map(|(key, _)| key.clone()));
            session.commit(transaction).await.unwrap();
        }
        // The head, everything as it was once, and what changed since.
        assert!(names.len() <= 2 + ANEW_ROWS_MIN / SAVE_ROWS, "{} keys", names.len());
        let emitted = load(&session).await.emit(false).unwrap();
        let count = |batch: &RecordBatch| {
            let counts = batch.column_by_name("count").expect("counts");
            let counts = counts.as_primitive::<arrow::datatypes::Int64Type>();
            counts.iter().flatten().collect::<Vec<_>>()
        };
        assert_eq!(emitted.iter().flat_map(count).collect::<Vec<_>>(), [2_000; 3]);
    }

    #[tokio::test]
    async fn a_row_with_a_hole_is_damaged() {
        let session = session().await;
        let mut groups = load(&session).await;
        for word in ["a", "b", "c"] {
            groups.add(0, &words(&[word])).unwrap();
            save(&session, &mut groups).await.unwrap();
        }
        let (head, prefix) = keys(0);
        let (head, mut saved) =
            (session.get(&head).await.unwrap(), session.scan(&prefix).await.unwrap());
        saved.remove(1);
        let why = grouped().load(0, head, &saved).unwrap_err();
        assert!(why.contains("damaged"), "{why}");
        let why = grouped().load(0, Some("7".into()), &[]).unwrap_err();
        assert!(why.contains("damaged"), "{why}");
    }
}
