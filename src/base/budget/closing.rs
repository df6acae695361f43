//! Selection of the account to close when other accounts need memory. A stranger is an account whose client has shown
//! no key or token.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::Stopwatch;
use crate::base::budget::{
    AccountState, BudgetState, GroupId, LITTLE_BYTES, MemoryGroup, PartOfGroup,
};

/// Delay before the next account is asked to close if the previous one has not closed yet. Closing usually takes less
/// time. An account that does not close must not protect the others.
pub(super) const CLOSING_PATIENCE: Duration = Duration::from_millis(100);

/// Time for which the largest accounts are cached if none of them had to close. Limits how often all accounts are
/// scanned without result.
pub(super) const KNOWN_FOR: Duration = Duration::from_millis(5);

/// Maximum number of bytes of closing strangers that other accounts may take before these strangers are gone.
pub(super) const LEAVING_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Number of the oldest strangers that are considered when one has to close.
const FIRST_STRANGERS: usize = 64;

/// Divisor of the budget: an account that keeps up to this part of all bytes, and up to [`LITTLE_BYTES`], keeps little.
pub(super) const LITTLE_PART: usize = 512;

/// The accounts that were asked to close, and the candidates to be asked next.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// Strangers that were asked to close, with the time since then. Their bytes count as free.
    leaving: Vec<(Weak<AccountState>, Stopwatch)>,
    /// The account that was last asked to close, with the time since then.
    last: Option<(Weak<AccountState>, Stopwatch)>,
    /// Candidates to close next, with the time since they were found.
    next: Option<(Largest, Stopwatch)>,
}

/// The largest of the accounts that can be closed, by category. Only these are candidates to close.
#[derive(Debug)]
struct Largest {
    stranger: Option<Weak<AccountState>>,
    with_key: Option<Weak<AccountState>>,
    of_all: Option<Weak<AccountState>>,
    /// The largest account of each group whose accounts share the limit of the group.
    beside: HashMap<GroupId, Weak<AccountState>>,
}

/// Size of an account for comparison within its entity or key: the bytes of its key, the bytes of its part or address,
/// and its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SizeApart {
    by_key: usize,
    apart: usize,
    taken: usize,
}

impl BudgetState {
    /// Takes `bytes` for `asking` and asks strangers to close for them. The bytes of closing strangers count as free at
    /// once, so that `asking` need not wait until they have closed and no other account gets the bytes first. Returns
    /// whether the bytes were taken.
    ///
    /// Strangers close for an account that has shown a key, and for an account that keeps little: otherwise many equal
    /// strangers, each with its own address, could lock everybody else out. In a budget with `is_passing`, late
    /// accounts close in place of strangers, for any other account.
    pub(super) fn take_of_strangers(&self, asking: &AccountState, bytes: usize) -> bool {
        if !asking.goes_before_strangers(bytes) {
            return false;
        }
        let mut going = self.going.lock().unwrap();
        let mut leaving = going.leaving_bytes(self.patience);
        loop {
            let all = self.taken.load(Ordering::Relaxed);
            if asking.share_allows(all.saturating_sub(leaving), bytes) {
                asking.add_anyway(bytes);
                return true;
            }
            if leaving >= LEAVING_BYTES_MAX {
                return false;
            }
            let Some(stranger) = self.stranger_to_go(asking) else {
                return false;
            };
            leaving += stranger.taken();
            going.ask_to_leave(&stranger);
        }
    }

    /// Asks a stranger to close so that `asking` can have its place, unless one is closing already. If `asking` has
    /// priority over strangers, any stranger may close; otherwise only one whose address keeps more than that of
    /// `asking`. Returns whether a stranger closes.
    pub(super) fn let_stranger_go(&self, asking: &AccountState) -> bool {
        let goes_first = asking.goes_before_strangers(0);
        let mut going = self.going.lock().unwrap();
        let is_one_leaving = going.leaving_bytes(self.patience) > 0;
        if goes_first && is_one_leaving {
            return true;
        }
        let stranger = self
            .stranger_to_go(asking)
            .filter(|each| goes_first || each.own() > asking.own());
        if let Some(stranger) = &stranger {
            going.ask_to_leave(stranger);
        }
        stranger.is_some()
    }

    /// Returns the stranger, or with `is_passing` the late account, that closes for `asking`: among the oldest ones the
    /// one whose address keeps most. The cost does not depend on the number of accounts.
    fn stranger_to_go(&self, asking: &AccountState) -> Option<Arc<AccountState>> {
        let mut strangers = self.strangers.lock().unwrap();
        let mut first = Vec::with_capacity(FIRST_STRANGERS);
        while first.len() < FIRST_STRANGERS
            && let Some(next) = strangers.pop_front()
        {
            let stranger = next.upgrade().filter(|each| each.can_close());
            first.extend(stranger.filter(|each| self.is_passing || !each.is_known()));
        }
        for each in first.iter().rev() {
            strangers.push_front(Arc::downgrade(each));
        }
        drop(strangers);
        first.reverse(); // `max_by_key` returns the last of those that are alike
        let others = first
            .into_iter()
            .filter(|each| !std::ptr::eq(&**each, asking))
            .filter(|each| {
                if self.is_passing {
                    each.is_late() && each.taken() > 0
                } else {
                    each.is_strangers()
                }
            });
        others.max_by_key(|each| each.taken_by_group())
    }

    /// Asks an account to close to free `bytes`, unless an account is closing already. Returns whether one closes.
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

    /// Asks the largest account that shares a group with `account`, such as the holder of its key, to close.
    pub(super) fn close_beside(&self, account: &AccountState) {
        let mut going = self.going.lock().unwrap();
        let next = self.look(&mut going, account);
        if let Some(largest) = next.0.largest_beside(account) {
            largest.ask_to_close();
        }
        going.next = Some(next);
    }

    /// Returns the largest accounts, with the time since they were found. Scans all accounts that can be closed, unless
    /// a recent result is still valid for `asking`.
    fn look(&self, going: &mut Going, asking: &AccountState) -> (Largest, Stopwatch) {
        let known = going
            .next
            .take()
            .filter(|(next, since)| since.took() < self.known_for && next.is_current(asking));
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

impl Going {
    /// Returns the bytes of the accounts that were asked to close and have not closed yet. An account that takes longer
    /// than `patience` no longer counts.
    fn leaving_bytes(&mut self, patience: Duration) -> usize {
        let mut bytes = 0;
        self.leaving.retain(|(each, since)| {
            let leaves = each.upgrade().filter(|each| !each.stays());
            let taken = leaves.map_or(0, |each| each.taken());
            let is_leaving = taken > 0 && since.took() < patience;
            bytes += if is_leaving { taken } else { 0 };
            is_leaving
        });
        bytes
    }

    fn ask_to_leave(&mut self, account: &Arc<AccountState>) {
        account.ask_to_close();
        let since = Stopwatch::begin();
        self.leaving.push((Arc::downgrade(account), since));
    }
}

impl Largest {
    fn of(accounts: &[Arc<AccountState>]) -> Self {
        let strangers = accounts.iter().filter(|each| each.is_strangers());
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
            // Chooses the oldest of equal strangers: a new client has not had time to show a key.
            stranger: strangers.rev().max_by_key(size).map(Arc::downgrade),
            with_key: with_key.max_by_key(size_with_key).map(Arc::downgrade),
            of_all: accounts.iter().rev().max_by_key(size).map(Arc::downgrade),
            beside: beside.collect(),
        }
    }

    /// Returns whether the candidates for `asking` still exist and can be closed, and whether the stranger among them
    /// is still a stranger.
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

    /// Returns the largest of the accounts that share a group with `account`.
    fn largest_beside(&self, account: &AccountState) -> Option<Arc<AccountState>> {
        let largest = self.beside(account).filter_map(Weak::upgrade);
        largest.max_by_key(|each| each.size_apart())
    }

    /// Returns the account that has to close if `asking` lacks `bytes` only because others in its group, or with a key
    /// of the same holder, keep much. Chooses the largest account of the largest part, or of the address that keeps
    /// most of them. Returns `None` if `asking` is not smaller.
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

    /// Returns the account that has to close for the `bytes` that `asking` wants: the largest account of the largest
    /// group, a stranger if there are any. Returns `None` if `asking` is not smaller.
    ///
    /// Strangers close for a client that has shown a key even if they are smaller. If one key keeps more than all
    /// strangers together, and more than `asking`, the key of `asking` and its address, the largest account of that key
    /// closes before the strangers. An account smaller than `asking` closes, too, if its group keeps more than `asking`
    /// and the groups of `asking`, since many small accounts can keep as much as a large one.
    fn goes_for(&self, asking: &AccountState, bytes: usize) -> Option<Arc<AccountState>> {
        let find = |which: Option<&Weak<AccountState>>| which.and_then(Weak::upgrade);
        let is_known = asking.is_known();
        // An account that keeps half of the budget could take no more even if all others were closed.
        let would_get_it = asking.share_allows(asking.own(), bytes);
        if !is_known && !would_get_it {
            return None;
        }
        let of_strangers = asking.total.of_strangers.load(Ordering::Relaxed);
        let most = of_strangers.max(asking.own()).saturating_add(bytes);
        let has_more =
            |each: &Arc<AccountState>| asking.is_little_beside(most, each.taken_for_key());
        let with_key = find(self.with_key.as_ref()).filter(has_more);
        if with_key.is_some() {
            return with_key;
        }
        let stranger = find(self.stranger.as_ref()).filter(|_| would_get_it);
        let largest = stranger.or_else(|| find(self.of_all.as_ref()))?;
        let goes = (largest.taken() > asking.taken() && !asking.is_passing())
            || asking.is_little_beside(asking.own(), largest.taken_by_group())
            || (is_known && would_get_it && largest.is_strangers());
        goes.then_some(largest)
    }
}

impl AccountState {
    fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    fn is_passing(&self) -> bool {
        self.total.is_passing
    }

    /// Returns whether strangers close for this account when it wants `bytes`. Returns `false` if all strangers
    /// together keep too few bytes.
    pub(super) fn goes_before_strangers(&self, bytes: usize) -> bool {
        let little = LITTLE_BYTES.min(self.total.bytes_max / LITTLE_PART);
        let is_little = self.own().saturating_add(bytes) <= little;
        let is_first = self.is_known() || self.is_passing() || is_little;
        let leavable = if self.is_passing() {
            LEAVING_BYTES_MAX
        } else {
            self.total.of_strangers.load(Ordering::Relaxed)
        };
        let can_leave = leavable.min(LEAVING_BYTES_MAX);
        let all = self.total.taken.load(Ordering::Relaxed);
        is_first && self.share_allows(all.saturating_sub(can_leave), bytes)
    }

    fn can_close(&self) -> bool {
        let stays = self.stays_once_known.load(Ordering::Relaxed) && self.is_known();
        !stays && !self.stays() && !self.is_asked()
    }

    fn ask_to_close(&self) {
        self.close.get_or_init(CancellationToken::new).cancel();
    }

    /// Returns whether the account keeps bytes for a client that has shown no key or token.
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

    /// Returns whether an account with `much` bytes has to close for this one, which has `own` bytes. With
    /// `is_passing`, `much` must be more than twice `own`, so that large requests do not end each other.
    fn is_little_beside(&self, own: usize, much: usize) -> bool {
        much > own.saturating_mul(if self.is_passing() { 2 } else { 1 })
    }

    /// Returns the groups in which the largest account closes for the others: the first group, if the account is in a
    /// part of it, and the group of its key.
    fn shared_groups(&self) -> impl Iterator<Item = &MemoryGroup> {
        let [first, _] = &self.groups;
        let shared = self.part.as_ref().and(first.as_ref());
        let of_key = self.of_key.get().map(|of_key| &of_key.group);
        shared.into_iter().chain(of_key)
    }

    /// Returns whether the account could take `bytes` if all other accounts of its entity or key were closed.
    fn fits_apart(&self, bytes: usize) -> bool {
        let own = self.own_apart();
        let left = self.total.bytes_max.saturating_sub(own);
        let of_part =
            |part: &PartOfGroup| (left.saturating_sub(own) / 2).saturating_mul(part.times);
        let most = self.part.as_ref().map_or(left, of_part);
        own.saturating_add(bytes) <= left.min(most)
    }

    /// Returns the bytes that count against the share of the account, without those of others of its entity or key.
    fn own_apart(&self) -> usize {
        let of_part = self.part.as_ref().map(|part| part.group.taken());
        let apart = of_part.unwrap_or_else(|| self.taken_by_first_group());
        self.taken().max(apart)
    }
}
