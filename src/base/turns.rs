//! Fair queues: keys are served round-robin, so that a key with many items does not make other keys
//! wait for all of its items.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// First-in, first-out queues, one for each key. Each key belongs to a group. The groups are served round-robin, one
/// item at a time, and so are the keys within a group.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    by_key: HashMap<K, VecDeque<T>>,
    /// The keys of each group that have waiting items, in the order of their turns.
    groups: HashMap<K, VecDeque<K>>,
    /// The groups that have waiting items, in the order of their turns.
    order: VecDeque<K>,
    /// The number of waiting items of all keys.
    len: usize,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            groups: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// Adds `item` at the end of the queue of `key`, which forms a group of its own.
    pub fn push(&mut self, key: K, item: T) {
        self.push_in(key.clone(), key, item);
    }

    /// Adds `item` at the end of the queue of `key`, which belongs to `group`. A key stays in its group for as long as
    /// it has waiting items.
    pub fn push_in(&mut self, group: K, key: K, item: T) {
        let waiting = self.by_key.entry(key.clone()).or_default();
        if waiting.is_empty() {
            let keys = self.groups.entry(group.clone()).or_default();
            if keys.is_empty() {
                self.order.push_back(group);
            }
            keys.push_back(key);
        }
        waiting.push_back(item);
        self.len += 1;
    }

    /// Takes the first item of the key whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_if(|_| true)
    }

    /// Takes the first item of the next key whose first item satisfies `suits`. Keys that are passed over keep their
    /// turns.
    pub fn pop_if(&mut self, suits: impl Fn(&T) -> bool) -> Option<T> {
        let is_next = |key: &K| {
            let first = self.by_key.get(key).and_then(VecDeque::front);
            first.is_some_and(&suits)
        };
        let found = self.order.iter().enumerate().find_map(|(place, group)| {
            let keys = self.groups.get(group)?;
            Some((place, keys.iter().position(&is_next)?))
        });
        let (place, place_of_key) = found?;
        let group = self.order.remove(place)?;
        let keys = self.groups.get_mut(&group)?;
        let key = keys.remove(place_of_key)?;
        let waiting = self.by_key.get_mut(&key)?;
        let item = waiting.pop_front();
        self.len -= 1;
        if waiting.is_empty() {
            self.by_key.remove(&key);
        } else {
            keys.push_back(key);
        }
        if keys.is_empty() {
            self.groups.remove(&group);
        } else {
            self.order.push_back(group);
        }
        item
    }

    /// Takes the last item of the key with the most waiting items, if it has at least two more than `key`.
    pub fn pop_last_beyond(&mut self, key: &K) -> Option<T> {
        let own = self.waiting(key);
        let most = self.by_key.values_mut().max_by_key(|each| each.len())?;
        if most.len() < own + 2 {
            return None;
        }
        self.len -= 1;
        most.pop_back()
    }

    /// Returns the number of waiting items of `key`.
    pub fn waiting(&self, key: &K) -> usize {
        self.by_key.get(key).map_or(0, VecDeque::len)
    }

    /// Returns whether there are no waiting items.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How much waits of all keys.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_turns_and_keep_their_orders() {
        let mut turns = FairQueue::default();
        for (key, item) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            turns.push(key, item);
        }
        assert_eq!((turns.len(), turns.waiting(&'a')), (6, 3));
        let first = turns.pop_if(|item| item % 2 == 0);
        assert_eq!(first, Some(4), "the first of a key, and no other of it");
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, [1, 5, 6, 2, 3]);
        assert!(turns.is_empty() && turns.waiting(&'a') == 0);
        assert_eq!((turns.pop_if(|_| true), turns.len()), (None, 0));
    }

    #[test]
    fn the_last_one_of_whoever_has_most_makes_room() {
        let mut turns = FairQueue::default();
        for (key, item) in [('a', 1), ('b', 2), ('a', 3), ('a', 4)] {
            turns.push(key, item);
        }
        assert_eq!(turns.pop_last_beyond(&'b'), Some(4));
        assert_eq!(turns.pop_last_beyond(&'b'), None, "two and one");
        assert_eq!(turns.pop_last_beyond(&'c'), Some(3));
        assert_eq!(turns.pop_last_beyond(&'c'), None, "one and none");
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!((order, turns.len()), (vec![1, 2], 0));
    }

    #[test]
    fn the_keys_of_a_group_have_one_turn_together() {
        let mut turns = FairQueue::default();
        for (group, key, item) in [
            ('g', 'a', 1),
            ('g', 'a', 2),
            ('g', 'b', 3),
            ('g', 'c', 4),
            ('h', 'd', 5),
            ('h', 'd', 6),
        ] {
            turns.push_in(group, key, item);
        }
        turns.push('e', 7);
        let even = turns.pop_if(|item| item % 2 == 0);
        assert_eq!(even, Some(4), "the first of a key in the group");
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, [5, 7, 1, 6, 3, 2]);
        assert!(turns.is_empty() && turns.groups.is_empty());
    }
}
