//! Which account has to close when others need the memory that it keeps.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::Stopwatch;
use crate::base::budget::{AccountState, BudgetState, GroupId, MemoryGroup, PartOfGroup};

/// How long the next account waits to be asked to close until the one before is gone. Those that go take less, and who does not go
/// keeps nobody else.
pub(super) const CLOSING_PATIENCE: Duration = Duration::from_millis(100);

/// How long it is known who has most where nobody had to go for who asked: however often somebody asks, all accounts are looked at in
/// vain no more often than that.
pub(super) const KNOWN_FOR: Duration = Duration::from_millis(5);

/// Who has to close.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// The one that was asked last, and since when.
    last: Option<(Weak<AccountState>, Stopwatch)>,
    /// Accounts of which one may be next, and since when that is known.
    next: Option<(Largest, Stopwatch)>,
}

/// Accounts that have most among all that can be closed: whoever needs room, one of these is asked to close or nobody.
#[derive(Debug)]
struct Largest {
    /// Bytes that all strangers have together.
    of_strangers: usize,
    stranger: Option<Weak<AccountState>>,
    with_key: Option<Weak<AccountState>>,
    of_all: Option<Weak<AccountState>>,
    /// Who has most of each group in which accounts share what it may have.
    beside: HashMap<GroupId, Weak<AccountState>>,
}

/// How much an account has beside others of its entity or key: with all of its key, with all of its part or address, and alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SizeApart {
    by_key: usize,
    apart: usize,
    taken: usize,
}

impl BudgetState {
    /// Asks somebody to close for bytes that are not there, unless one is about to go already. Returns whether somebody goes.
    pub(super) fn make_room(&self, asking: &AccountState, bytes: usize) -> bool {
        if self.is_passing && !asking.fits_apart(bytes) {
            return false;
        }
        let mut going = self.going.lock().unwrap();
        if let Some((last, since)) = &going.last
            && last.upgrade().is_some_and(|last| !last.stays())
            && since.took() < self.patience
        {
            return true;
        }
        let next = self.look(&mut going, asking);
        let goes = next.0.goes_for(asking, bytes);
        let Some(largest) = goes.or_else(|| next.0.goes_beside(asking, bytes)) else {
            going.next = Some(next);
            return false;
        };
        going.last = Some((Arc::downgrade(&largest), Stopwatch::begin()));
        largest.ask_to_close();
        true
    }

    /// Asks who has most among those who have shown a key of the same holder as the client of `account` to close.
    pub(super) fn close_beside(&self, account: &AccountState) {
        let mut going = self.going.lock().unwrap();
        let next = self.look(&mut going, account);
        if let Some(largest) = next.0.largest_beside(account) {
            largest.ask_to_close();
        }
        going.next = Some(next);
    }

    /// Returns who has most for all that `asking` may ask for, and since when that is known. Looks at all accounts that can be closed
    /// unless others have just done so.
    fn look(&self, going: &mut Going, asking: &AccountState) -> (Largest, Stopwatch) {
        let known = going.next.take().filter(|(next, since)| {
            since.took() < self.known_for && next.is_current(asking) // others have just looked
        });
        known.unwrap_or_else(|| {
            let all = self.all_that_can_close();
            (Largest::of(&all), Stopwatch::begin())
        })
    }

    fn all_that_can_close(&self) -> Vec<Arc<AccountState>> {
        let mut closable = self.closable.lock().unwrap();
        closable.retain(|each| each.strong_count() > 0);
        let all = closable.iter().filter_map(Weak::upgrade);
        all.filter(|each| each.can_close()).collect()
    }
}

impl Largest {
    fn of(accounts: &[Arc<AccountState>]) -> Self {
        let strangers = || accounts.iter().filter(|each| each.is_strangers());
        let size = |each: &&Arc<AccountState>| (each.taken_by_group(), each.size_apart());
        let with_key = accounts.iter().filter(|each| each.taken_for_key() > 0);
        let size_with_key = |each: &&Arc<AccountState>| (each.taken_for_key(), size(each));
        let mut largest = HashMap::new();
        for each in accounts {
            for group in each.shared_groups() {
                let of_group = largest.entry(group.id()).or_insert(each);
                if each.size_apart() >= of_group.size_apart() {
                    *of_group = each;
                }
            }
        }
        let beside = largest
            .into_iter()
            .map(|(id, each)| (id, Arc::downgrade(each)));
        Self {
            of_strangers: strangers().map(|each| each.taken()).sum(),
            stranger: strangers().max_by_key(size).map(Arc::downgrade),
            with_key: with_key.max_by_key(size_with_key).map(Arc::downgrade),
            of_all: accounts.iter().max_by_key(size).map(Arc::downgrade),
            beside: beside.collect(),
        }
    }

    /// Returns whether each of them that `asking` may ask for is there and can be closed as what it was.
    fn is_current(&self, asking: &AccountState) -> bool {
        let can_close = |each: &Weak<AccountState>| each.upgrade().filter(|each| each.can_close());
        let others = [&self.with_key, &self.of_all].into_iter().flatten();
        let mut all_others = others.chain(self.beside(asking)).map(can_close);
        let mut strangers = self.stranger.iter().map(can_close);
        all_others.all(|each| each.is_some())
            && strangers.all(|each| each.is_some_and(|each| each.is_strangers()))
    }

    fn beside(&self, account: &AccountState) -> impl Iterator<Item = &Weak<AccountState>> {
        let groups = account.shared_groups();
        groups.filter_map(move |group| self.beside.get(&group.id()))
    }

    /// Returns who has most of what accounts share with `account`.
    fn largest_beside(&self, account: &AccountState) -> Option<Arc<AccountState>> {
        let largest = self.beside(account).filter_map(Weak::upgrade);
        largest.max_by_key(|each| each.size_apart())
    }

    /// Returns who has to close for bytes that `asking` lacks only because others in its group, or who have shown a key of the same
    /// holder, keep much: the largest of the largest part, or of the address that has most of them, unless `asking` is no smaller.
    fn goes_beside(&self, asking: &AccountState, bytes: usize) -> Option<Arc<AccountState>> {
        if asking.own() <= asking.own_apart() || !asking.fits_apart(bytes) {
            return None;
        }
        let largest = self.largest_beside(asking)?;
        let (size, own_size) = (largest.size_apart(), asking.size_apart());
        let is_larger = if !asking.is_passing() {
            size > own_size
        } else if size.by_key == own_size.by_key {
            asking.is_little_beside(own_size.apart, size.apart)
        } else {
            asking.is_little_beside(own_size.by_key, size.by_key)
        };
        is_larger.then_some(largest)
    }

    /// Returns who has to close for `bytes` that `asking` wants: the largest of the largest group, a stranger if there are any,
    /// unless `asking` is no smaller. Strangers have to go for who is known even if they are smaller; but before them that goes which
    /// was kept for one key, if it is more than all strangers have together, and more than the key of who asks has. One that is
    /// smaller than `asking` goes, too, if its group has more than `asking` and the groups of that: many small ones keep as much as a
    /// large one.
    fn goes_for(&self, asking: &AccountState, bytes: usize) -> Option<Arc<AccountState>> {
        let find = |which: Option<&Weak<AccountState>>| which.and_then(Weak::upgrade);
        let most = self.of_strangers.max(asking.taken_for_key());
        let most = most.saturating_add(bytes);
        let has_more =
            |each: &Arc<AccountState>| asking.is_little_beside(most, each.taken_for_key());
        let with_key = find(self.with_key.as_ref()).filter(has_more);
        if with_key.is_some() {
            return with_key;
        }
        let is_known = asking.is_known();
        // Whoever has half of everything would get no more if all others were gone.
        let is_strangers_turn = !is_known || asking.share_allows(asking.own(), bytes);
        let stranger = find(self.stranger.as_ref()).filter(|_| is_strangers_turn);
        let largest = stranger.or_else(|| find(self.of_all.as_ref()))?;
        let goes = (largest.taken() > asking.taken() && !asking.is_passing())
            || asking.is_little_beside(asking.own(), largest.taken_by_group())
            || (is_known && is_strangers_turn && largest.is_strangers());
        goes.then_some(largest)
    }
}

impl AccountState {
    fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    fn is_passing(&self) -> bool {
        self.total.is_passing
    }

    fn can_close(&self) -> bool {
        !self.stays() && !self.is_asked()
    }

    fn ask_to_close(&self) {
        self.close.get_or_init(CancellationToken::new).cancel();
    }

    /// Returns whether it keeps something for a client that has shown nothing.
    fn is_strangers(&self) -> bool {
        !self.is_known() && self.taken() > 0
    }

    fn size_apart(&self) -> SizeApart {
        let of_key = self.of_key.get().and_then(|of_key| of_key.part.as_ref());
        SizeApart {
            by_key: of_key.map_or(0, |part| part.group.taken()),
            apart: self.own_apart(),
            taken: self.taken(),
        }
    }

    /// Returns whether who has `much` has to close for it because it has `own`. Where all of it is soon gone that takes twice as much,
    /// so that those who have much do not end what the others of them do.
    fn is_little_beside(&self, own: usize, much: usize) -> bool {
        much > own.saturating_mul(if self.is_passing() { 2 } else { 1 })
    }

    /// Returns the groups in which the largest goes first for the others: those of which it is in a part, and that of its key.
    fn shared_groups(&self) -> impl Iterator<Item = &MemoryGroup> {
        let [first, _] = &self.groups;
        let shared = self.part.as_ref().and(first.as_ref());
        let of_key = self.of_key.get().map(|of_key| &of_key.group);
        shared.into_iter().chain(of_key)
    }

    /// Returns whether it would get `bytes` if those who share an entity or a key with it were gone.
    fn fits_apart(&self, bytes: usize) -> bool {
        let own = self.own_apart();
        let left = self.total.bytes_max.saturating_sub(own);
        let of_part =
            |part: &PartOfGroup| (left.saturating_sub(own) / 2).saturating_mul(part.times);
        let most = self.part.as_ref().map_or(left, of_part);
        own.saturating_add(bytes) <= left.min(most)
    }

    /// Returns what counts for its share apart from what it shares with others of its entity or key.
    fn own_apart(&self) -> usize {
        let of_part = self.part.as_ref().map(|part| part.group.taken());
        let apart = of_part.unwrap_or_else(|| self.taken_by_first_group());
        self.taken().max(apart)
    }
}
