//! The tree with ranks is an ordered map, stays balanced, and never changes under a clone.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sardonyx_core::tree::Tree;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, u32),
    Change(u8, u32),
    Remove(u8),
    Keep,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u8>(), any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
        3 => any::<u8>().prop_map(Step::Remove),
        1 => Just(Step::Keep),
    ]
}

proptest! {
    #[test]
    fn a_tree_is_an_ordered_map(steps in prop::collection::vec(any_step(), 0..400)) {
        let (mut tree, mut model) = (Tree::new(), BTreeMap::new());
        let mut kept = Vec::new();
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    prop_assert_eq!(tree.insert(key, value), model.insert(key, value));
                }
                Step::Change(key, value) => {
                    let (mine, theirs) = (tree.get_mut(&key), model.get_mut(&key));
                    prop_assert_eq!(mine.is_some(), theirs.is_some());
                    mine.into_iter().chain(theirs).for_each(|place| *place = value);
                }
                Step::Remove(key) => prop_assert_eq!(tree.remove(&key), model.remove(&key)),
                Step::Keep => kept.push((tree.clone(), model.clone())),
            }
            prop_assert!(tree.is_sound());
            prop_assert_eq!(tree.len(), model.len());
            prop_assert_eq!(tree.last(), model.last_key_value());
        }
        kept.push((tree, model));
        for (tree, model) in kept {
            prop_assert!(tree.iter().eq(model.iter()));
            for (rank, entry) in model.iter().enumerate() {
                prop_assert_eq!(tree.nth(rank), Some(entry));
            }
            prop_assert_eq!(tree.nth(model.len()), None);
        }
    }
}
