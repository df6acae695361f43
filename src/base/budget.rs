//! Bytes that are kept for clients. Whoever keeps something takes its bytes first, and a guard gives them back.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::Stopwatch;
use crate::base::places::{Places, TakenPlace};

/// How long the next account waits to be asked to close until the one before is gone. Those that go take less, and who does not go
/// keeps nobody else.
const CLOSING_PATIENCE: Duration = Duration::from_millis(100);

/// How long it is known who has most where nobody had to go for who asked: however often somebody asks, all accounts are looked at in
/// vain no more often than that.
const KNOWN_FOR: Duration = Duration::from_millis(5);

/// Bytes up to which an account and its groups keep little: connections with a few requests or links, such as most clients have.
const LITTLE_BYTES: usize = 128 * 1_024;

/// How many times as much as it leaves to the others a key has of what all keys of its holder may have, such as those of a queue: it
/// keeps none of them from sending or receiving.
pub const KEY_TIMES: usize = 31;

/// Bytes that all may keep together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    /// The place of the one account that may take more than there is. Groups take turns for it.
    beyond: Places<GroupId>,
    /// True if what is kept is gone soon by itself.
    is_passing: bool,
    bytes_max: usize,
    /// What is left of the bytes beyond these, for a moment, for those who keep little.
    reserve: AtomicUsize,
    taken: AtomicUsize,
    /// Accounts that can be closed to make room.
    closable: Mutex<Vec<Weak<AccountState>>>,
    going: Mutex<Going>,
    patience: Duration,
    known_for: Duration,
    /// By what clients have shown over accounts that they had before: by the holder, and by the key of a holder who has several.
    keys: MemoryGroups<(String, Option<String>)>,
}

/// Who has to close.
#[derive(Debug, Default)]
struct Going {
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

/// The bytes that several accounts keep together, such as those of one address.
#[derive(Clone, Debug)]
pub struct MemoryGroup(Arc<AtomicUsize>);

impl MemoryGroup {
    fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn id(&self) -> GroupId {
        Arc::as_ptr(&self.0).addr()
    }
}

/// The groups of one account: nothing is allocated for them, since each publish request has an account.
pub type GroupsOfAccount = [Option<MemoryGroup>; 2];

/// Groups by what their accounts have in common. It holds nothing for long of those without accounts.
#[derive(Debug)]
pub struct MemoryGroups<K>(Mutex<HashMap<K, Weak<AtomicUsize>>>);

/// A part of the first group of an account, such as what one address has of a topic: accounts of another part find something left.
#[derive(Debug)]
pub struct PartOfGroup {
    pub group: MemoryGroup,
    /// How many times as much as it leaves of the first group a part may have.
    pub times: usize,
}

/// A key that a client has shown, or a token or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentedKey {
    /// Whose it is, such as a queue: all keys of a holder stand together.
    pub holder: String,
    /// Which of them it is; `None` if the holder has no other.
    pub key: Option<String>,
}

impl PresentedKey {
    /// Returns one that stands for its holder alone, such as a token.
    pub fn alone(holder: String) -> Self {
        Self { holder, key: None }
    }
}

/// One who keeps something. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryAccount(Arc<AccountState>);

#[derive(Debug)]
struct AccountState {
    total: Arc<BudgetState>,
    groups: GroupsOfAccount,
    part: Option<PartOfGroup>,
    bytes_max: usize,
    taken: AtomicUsize,
    /// True once its client has shown a valid key or token.
    is_known: AtomicBool,
    /// The groups of the key that its client has shown first.
    of_key: OnceLock<GroupOfKey>,
    /// True once nobody listens any more for being asked to close.
    stays: AtomicBool,
    /// Made when somebody first asks for it: most accounts are those of single requests, which never close.
    close: OnceLock<CancellationToken>,
}

/// How much an account has beside others of its entity or key: with all of its key, with all of its part or address, and alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SizeApart {
    by_key: usize,
    apart: usize,
    taken: usize,
}

/// The groups that an account is in since its client has shown a key.
#[derive(Debug)]
struct GroupOfKey {
    /// The group of the holder.
    group: MemoryGroup,
    /// The group of the key, if the holder has several.
    part: Option<PartOfGroup>,
    /// Bytes of the account that are counted in them.
    counted: Mutex<usize>,
}

/// Bytes that were taken, until it is dropped.
#[derive(Debug)]
pub struct TakenBytes {
    account: MemoryAccount,
    bytes: usize,
    /// As many of them are of the reserve.
    of_reserve: usize,
}

/// Tells groups apart, and accounts without one, as long as they are there.
type GroupId = usize;

/// The right to take more than there is, until it is dropped.
pub type BeyondTurn = TakenPlace<GroupId>;

/// Why bytes cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no memory left for it")]
pub struct NothingLeft;

impl Budget {
    /// So many bytes.
    pub fn of(bytes_max: usize) -> Self {
        Self::with_reserve(bytes_max, 0)
    }

    /// So many bytes, and beyond them a reserve for [`TakenBytes::add_for_a_moment`].
    pub fn with_reserve(bytes_max: usize, reserve: usize) -> Self {
        Self::new(bytes_max, reserve, CLOSING_PATIENCE, KNOWN_FOR)
    }

    /// So many bytes for what is gone soon by itself, such as bodies of requests. Whoever wants more than it may have beside nobody
    /// waits for its own, and others close only for who has less than half as much: new requests end nothing of the same address, and
    /// those who have much do not end each other's.
    pub fn of_passing(bytes_max: usize) -> Self {
        let state = BudgetState::new(bytes_max, 0, CLOSING_PATIENCE, KNOWN_FOR);
        Self(Arc::new(BudgetState {
            is_passing: true,
            ..state
        }))
    }

    fn new(bytes_max: usize, reserve: usize, patience: Duration, known_for: Duration) -> Self {
        let state = BudgetState::new(bytes_max, reserve, patience, known_for);
        Self(Arc::new(state))
    }

    /// An account that is never closed to make room.
    pub fn account(&self, groups: GroupsOfAccount, bytes_max: usize) -> MemoryAccount {
        self.account_in(groups, None, bytes_max)
    }

    /// An account that shares what its first group may have with those of other parts of it.
    pub fn account_within(
        &self,
        groups: GroupsOfAccount,
        part: PartOfGroup,
        bytes_max: usize,
    ) -> MemoryAccount {
        self.account_in(groups, Some(part), bytes_max)
    }

    fn account_in(
        &self,
        groups: GroupsOfAccount,
        part: Option<PartOfGroup>,
        bytes_max: usize,
    ) -> MemoryAccount {
        MemoryAccount(Arc::new(AccountState {
            total: Arc::clone(&self.0),
            groups,
            part,
            bytes_max,
            taken: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
            of_key: OnceLock::new(),
            stays: AtomicBool::new(false),
            close: OnceLock::new(),
        }))
    }

    /// An account that is asked to close when others need its room and it has most. Those whose clients have shown no key or
    /// token go first.
    pub fn closable_account(&self, groups: GroupsOfAccount, bytes_max: usize) -> MemoryAccount {
        self.closable(self.account(groups, bytes_max))
    }

    /// An account as [`Budget::closable_account`] has it, which shares what its first group may have. In the largest group one of the
    /// largest part goes first.
    pub fn closable_account_within(
        &self,
        groups: GroupsOfAccount,
        part: PartOfGroup,
        bytes_max: usize,
    ) -> MemoryAccount {
        self.closable(self.account_within(groups, part, bytes_max))
    }

    fn closable(&self, account: MemoryAccount) -> MemoryAccount {
        let mut closable = self.0.closable.lock().unwrap();
        if closable.len() == closable.capacity() {
            closable.retain(|each| each.strong_count() > 0);
        }
        closable.push(Arc::downgrade(&account.0));
        account
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.0.bytes_max.saturating_sub(self.taken())
    }

    /// Bytes that there are.
    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }
}

impl BudgetState {
    fn new(bytes_max: usize, reserve: usize, patience: Duration, known_for: Duration) -> Self {
        Self {
            beyond: Places::of(1),
            is_passing: false,
            bytes_max,
            reserve: AtomicUsize::new(reserve),
            taken: AtomicUsize::new(0),
            closable: Mutex::default(),
            going: Mutex::default(),
            patience,
            known_for,
            keys: MemoryGroups::default(),
        }
    }

    /// Asks somebody to close for bytes that are not there, unless one is about to go already. Returns whether somebody goes.
    fn make_room(&self, asking: &AccountState, bytes: usize) -> bool {
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
    fn close_beside(&self, account: &AccountState) {
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

impl<K> Default for MemoryGroups<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> MemoryGroups<K> {
    /// The group of what has `key` in common.
    pub fn of(&self, key: K) -> MemoryGroup {
        let mut groups = self.0.lock().unwrap();
        if let Some(found) = groups.get(&key).and_then(Weak::upgrade) {
            return MemoryGroup(found);
        }
        if groups.len() == groups.capacity() {
            groups.retain(|_, each| each.strong_count() > 0);
        }
        let group = Arc::default();
        groups.insert(key, Arc::downgrade(&group));
        MemoryGroup(group)
    }
}

impl AccountState {
    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn taken_by_group(&self) -> usize {
        self.taken_by_first_group().max(self.taken_for_key())
    }

    /// Returns what the largest of the groups has that it was in from the beginning, such as its address.
    fn taken_by_first_group(&self) -> usize {
        let groups = self.groups.iter().flatten();
        groups.map(MemoryGroup::taken).max().unwrap_or(0)
    }

    fn taken_for_key(&self) -> usize {
        let of_key = self.of_key.get();
        of_key.map_or(0, |of_key| of_key.group.taken())
    }

    /// Returns what counts for its share.
    fn own(&self) -> usize {
        self.taken().max(self.taken_by_group())
    }

    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed)
    }

    fn is_passing(&self) -> bool {
        self.total.is_passing
    }

    /// Returns whether it was asked to close.
    fn is_asked(&self) -> bool {
        let close = self.close.get();
        close.is_some_and(CancellationToken::is_cancelled)
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

    fn all_groups(&self) -> impl Iterator<Item = &MemoryGroup> {
        let part = self.part.iter().map(|part| &part.group);
        self.groups.iter().flatten().chain(part)
    }

    /// Returns the parts that it is in, each with the group of which that is one.
    fn parts(&self) -> impl Iterator<Item = (&PartOfGroup, &MemoryGroup)> {
        let [first, _] = &self.groups;
        let of_first = self.part.as_ref().zip(first.as_ref());
        let shown = self.of_key.get();
        let of_key = shown.and_then(|of_key| Some((of_key.part.as_ref()?, &of_key.group)));
        of_first.into_iter().chain(of_key)
    }

    /// Returns the groups in which the largest goes first for the others: those of which it is in a part, and that of its key.
    fn shared_groups(&self) -> impl Iterator<Item = &MemoryGroup> {
        let [first, _] = &self.groups;
        let shared = self.part.as_ref().and(first.as_ref());
        let of_key = self.of_key.get().map(|of_key| &of_key.group);
        shared.into_iter().chain(of_key)
    }

    /// Returns whether `bytes` more are within its own limit.
    fn allows(&self, bytes: usize) -> bool {
        self.taken().saturating_add(bytes) <= self.bytes_max
    }

    fn ask_to_close(&self) {
        self.close.get_or_init(CancellationToken::new).cancel();
    }

    fn can_close(&self) -> bool {
        !self.stays() && !self.is_asked()
    }

    /// Returns whether it keeps something for a client that has shown nothing.
    fn is_strangers(&self) -> bool {
        !self.is_known() && self.taken() > 0
    }

    /// Returns whether the rule for shares lets `bytes` be added where `all` are taken.
    fn share_allows(&self, all: usize, bytes: usize) -> bool {
        let left = self.total.bytes_max.saturating_sub(all);
        self.own().saturating_add(bytes) <= left && self.part_allows(left, bytes)
    }

    /// Returns whether its parts of groups get `bytes` where so many are left for all.
    fn part_allows(&self, left: usize, bytes: usize) -> bool {
        self.parts().all(|(part, group)| {
            let left_of_group = left.saturating_sub(group.taken()) / 2;
            part.group.taken().saturating_add(bytes) <= left_of_group.saturating_mul(part.times)
        })
    }

    /// Returns whether those who have shown its key, or another of the same holder, keep more than they could take beside nobody.
    fn key_has_too_much(&self) -> bool {
        let of_holder = self.taken_for_key();
        let left = self.total.bytes_max.saturating_sub(of_holder);
        of_holder > left || !self.part_allows(left, 0)
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

    /// Returns what is left for it for a moment beyond its share: something if it keeps little.
    fn reserve(&self) -> usize {
        let keeps = self.taken().max(self.taken_by_first_group());
        if keeps <= LITTLE_BYTES {
            self.total.reserve.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    fn add(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        for group in self.all_groups() {
            group.0.fetch_add(bytes, Ordering::Relaxed);
        }
        self.count_for_key();
    }

    /// Has what is taken now count for the key that was shown, if one was.
    fn count_for_key(&self) {
        let Some(of_key) = self.of_key.get() else {
            return;
        };
        let mut counted = of_key.counted.lock().unwrap();
        let taken = self.taken();
        let part = of_key.part.iter().map(|part| &part.group);
        for group in part.chain([&of_key.group]) {
            if taken > *counted {
                group.0.fetch_add(taken - *counted, Ordering::Relaxed);
            } else {
                group.0.fetch_sub(*counted - taken, Ordering::Relaxed);
            }
        }
        *counted = taken;
    }

    /// Gives back bytes, of which some are of the reserve.
    fn give_back(&self, bytes: usize, of_reserve: usize) {
        let groups = self.all_groups().map(|group| (&*group.0, bytes));
        let own = [
            (&self.total.taken, bytes - of_reserve),
            (&self.taken, bytes),
        ];
        for (count, bytes) in own.into_iter().chain(groups) {
            let before = count.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "{bytes} of {before} bytes are given back");
        }
        self.total.reserve.fetch_add(of_reserve, Ordering::Relaxed);
        self.count_for_key();
    }
}

impl Drop for AccountState {
    fn drop(&mut self) {
        debug_assert_eq!(self.taken(), 0, "what was taken is given back");
    }
}

impl MemoryAccount {
    /// Takes bytes, if there are so many: an account may have up to its own limit, and it and each of its groups may have
    /// more only while they have less than is left for all, so that nobody can take everything.
    pub fn take(&self, bytes: usize) -> Result<TakenBytes, NothingLeft> {
        let mut taken = self.nothing();
        taken.add(bytes)?;
        Ok(taken)
    }

    /// Takes bytes as [`TakenBytes::add_for_a_moment`] does.
    pub fn take_for_a_moment(&self, bytes: usize) -> Result<TakenBytes, NothingLeft> {
        let mut taken = self.nothing();
        taken.add_for_a_moment(bytes)?;
        Ok(taken)
    }

    /// No bytes yet.
    pub fn nothing(&self) -> TakenBytes {
        TakenBytes {
            account: self.clone(),
            bytes: 0,
            of_reserve: 0,
        }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.0.taken()
    }

    /// Returns whether so many bytes could be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let all = self.0.total.taken.load(Ordering::Relaxed);
        self.0.taken() + bytes <= self.0.bytes_max && self.0.share_allows(all, bytes)
    }

    /// Returns whether so many bytes could be taken for a moment now.
    pub fn has_room_for_a_moment(&self, bytes: usize) -> bool {
        let all = self.0.total.taken.load(Ordering::Relaxed);
        self.0.taken() + bytes <= self.0.bytes_max
            && (self.0.share_allows(all, bytes) || bytes <= self.0.reserve())
    }

    /// Bytes that it keeps, or the largest of its groups.
    pub fn own(&self) -> usize {
        self.0.own()
    }

    /// Notes that its client has shown a valid key or token: strangers go before it when others need room.
    pub fn note_known(&self) {
        self.0.is_known.store(true, Ordering::Relaxed);
    }

    /// Notes that its client has shown this key: what it keeps counts among what all keep who have shown one of the same holder. If they
    /// have half of everything, or those with this key leave the others nothing of it, one of them has to close: the largest of the
    /// address that has most, of the key that has most.
    pub fn note_key(&self, shown: impl FnOnce() -> PresentedKey) {
        self.note_known();
        let account = &self.0;
        let mut is_first = false;
        account.of_key.get_or_init(|| {
            is_first = true;
            let PresentedKey { holder, key } = shown();
            let keys = &account.total.keys;
            let group = keys.of((holder.clone(), None));
            let part = key.map(|key| PartOfGroup {
                group: keys.of((holder, Some(key))),
                times: KEY_TIMES,
            });
            GroupOfKey {
                group,
                part,
                counted: Mutex::default(),
            }
        });
        account.count_for_key();
        if is_first && account.key_has_too_much() {
            account.total.close_beside(account);
        }
    }

    /// Asks somebody to close as if others kept the memory that it needs, such as where there is no place for its connection. Returns
    /// whether somebody goes.
    pub fn ask_for_a_place(&self) -> bool {
        self.0.total.make_room(&self.0, 0)
    }

    /// Notes that it cannot be asked to close any more.
    pub fn stay(&self) {
        self.0.stays.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was asked to close.
    pub fn has_to_close(&self) -> bool {
        self.0.is_asked()
    }

    /// Returns whether its client has shown a valid key or token.
    pub fn is_known(&self) -> bool {
        self.0.is_known()
    }

    /// Cancelled when others need its room, and it has to close.
    pub fn asked_to_close(&self) -> &CancellationToken {
        self.0.close.get_or_init(CancellationToken::new)
    }

    /// Waits until it may take more than there is, which one account may at once, so that nobody waits for ever. The accounts of
    /// a group have one turn together.
    pub async fn turn_beyond(&self) -> BeyondTurn {
        let account = &self.0;
        let mut groups = account.groups.iter().flatten();
        let group = groups.next().map(MemoryGroup::id);
        let id = group.unwrap_or_else(|| Arc::as_ptr(account).addr());
        account.total.beyond.take(id).await
    }
}

impl TakenBytes {
    /// Takes more.
    pub fn add(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        self.add_of_share(bytes)
            .inspect_err(|NothingLeft| self.ask_for_room(bytes))
    }

    /// Takes more for what is soon over, such as reading a message that is handed out. Whoever keeps little has a reserve for it, so
    /// that nobody who keeps much can keep it from others. What is taken of the reserve is missed by nobody else.
    pub fn add_for_a_moment(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        self.add_of_share(bytes)
            .or_else(|NothingLeft| self.add_of_reserve(bytes))
            .inspect_err(|NothingLeft| self.ask_for_room(bytes))
    }

    fn ask_for_room(&self, bytes: usize) {
        let holder = &self.account.0;
        if holder.allows(bytes) {
            holder.total.make_room(holder, bytes);
        }
    }

    fn add_of_share(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        let holder = &self.account.0;
        if bytes == 0 {
            return Ok(());
        }
        if !holder.allows(bytes) {
            return Err(NothingLeft);
        }
        let more = |all| holder.share_allows(all, bytes).then(|| all + bytes);
        let order = Ordering::Relaxed;
        let taken = holder.total.taken.fetch_update(order, order, more);
        taken.map_err(|_| NothingLeft)?;
        holder.add(bytes);
        self.bytes += bytes;
        Ok(())
    }

    fn add_of_reserve(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        let holder = &self.account.0;
        if !holder.allows(bytes) || bytes > holder.reserve() {
            return Err(NothingLeft);
        }
        let less = |left: usize| left.checked_sub(bytes);
        let order = Ordering::Relaxed;
        let taken = holder.total.reserve.fetch_update(order, order, less);
        taken.map_err(|_| NothingLeft)?;
        holder.add(bytes);
        self.bytes += bytes;
        self.of_reserve += bytes;
        Ok(())
    }

    /// Counts bytes that are there already, even if that makes too many: then nobody can take more.
    pub fn add_anyway(&mut self, bytes: usize) {
        let holder = &self.account.0;
        holder.total.taken.fetch_add(bytes, Ordering::Relaxed);
        holder.add(bytes);
        self.bytes += bytes;
    }

    /// Gives some back.
    pub fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        let bytes = bytes.min(self.bytes);
        let of_reserve = bytes.min(self.of_reserve);
        self.account.0.give_back(bytes, of_reserve);
        self.bytes -= bytes;
        self.of_reserve -= of_reserve;
    }

    /// Takes more or gives some back, until there are so many.
    pub fn resize(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        if bytes > self.bytes {
            return self.add(bytes - self.bytes);
        }
        self.give_back(self.bytes - bytes);
        Ok(())
    }

    /// Counts so many, as [`TakenBytes::add_anyway`] does.
    pub fn resize_anyway(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.add_anyway(bytes - self.bytes);
        } else {
            self.give_back(self.bytes - bytes);
        }
    }

    /// Counts it for another account instead, even if that makes too many there.
    pub fn move_to(&mut self, account: &MemoryAccount) {
        let mut moved = account.nothing();
        moved.add_anyway(self.bytes);
        *self = moved;
    }

    /// Bytes that were taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whose they are.
    pub fn account(&self) -> &MemoryAccount {
        &self.account
    }
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.0.give_back(self.bytes, self.of_reserve);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[test]
    fn nobody_takes_everything() {
        let budget = Budget::of(64);
        let groups = MemoryGroups::default();
        let account =
            |group: &'static str| budget.account([Some(groups.of(group)), None], usize::MAX);
        let ones = |account: &MemoryAccount| -> Vec<TakenBytes> {
            (0..99).map_while(|_| account.take(1).ok()).collect()
        };
        let (first, same, other) = (account("a"), account("a"), account("b"));
        let mut kept = ones(&first);
        assert_eq!(kept.len(), 32, "half, beside nobody");
        assert_eq!(same.take(1).err(), Some(NothingLeft), "the group counts");
        assert_eq!(ones(&other).len(), 16, "half of what is left");
        kept.clear();
        assert_eq!((budget.taken(), first.taken()), (0, 0));
        assert_eq!(ones(&same).len(), 32);
    }

    #[test]
    fn an_account_has_a_limit_of_its_own() {
        let budget = Budget::of(1_000);
        let account = budget.account([None, None], 10);
        assert!(account.has_room(10) && !account.has_room(11));
        let mut taken = account.take(7).expect("room");
        assert_eq!(taken.add(4), Err(NothingLeft));
        assert_eq!(taken.resize(10), Ok(()));
        taken.give_back(9);
        assert_eq!((taken.bytes(), account.taken(), budget.left()), (1, 1, 999));
        taken.resize_anyway(20);
        assert_eq!(
            (account.taken(), budget.taken()),
            (20, 20),
            "it is there already"
        );
        assert!(!account.has_room(1));
        drop(taken);
        assert_eq!((account.taken(), budget.taken()), (0, 0));
    }

    #[test]
    fn the_largest_goes_first() {
        let budget = Budget::new(100, 0, Duration::MAX, Duration::MAX);
        let groups = MemoryGroups::default();
        let account =
            |group: &'static str| budget.closable_account([Some(groups.of(group)), None], 100);
        let (small, large) = (account("many"), account("many"));
        let (alone, poor) = (account("alone"), account("poor"));
        let few = small.take(10).expect("room");
        let many = large.take(35).expect("room");
        let _alone = alone.take(25).expect("room");
        let is_closing = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
        assert!(large.take(90).is_err());
        assert!(!is_closing(&large), "its own wish does not close it");
        assert!(poor.take(40).is_err());
        assert!(is_closing(&large), "of the largest group the largest");
        assert!(poor.take(40).is_err());
        assert!(!is_closing(&small) && !is_closing(&alone), "one is enough");
        drop((many, large));
        assert!(poor.take(70).is_err());
        assert!(is_closing(&alone), "the other group is the largest now");
        assert!(!is_closing(&small));
        drop(few);
    }

    #[test]
    fn whoever_keeps_little_has_a_moment_beyond_its_share() {
        let budget = Budget::with_reserve(1_000_000, 400_000);
        let groups = MemoryGroups::default();
        let account = |group: &'static str| budget.account([Some(groups.of(group)), None], 500_000);
        let mut others = account("others").nothing();
        others.add_anyway(700_000);
        let (little, same, much) = (account("little"), account("little"), account("much"));
        let mut kept = (little.take(LITTLE_BYTES).expect("room"), much.nothing());
        kept.1.add_anyway(LITTLE_BYTES + 1);
        assert!(!same.has_room(10_000) && same.has_room_for_a_moment(400_000));
        assert!(!same.has_room_for_a_moment(400_001));
        assert!(much.take_for_a_moment(1).is_err());
        let taken = budget.taken();
        let moment = same.take_for_a_moment(300_000).expect("room");
        assert!(same.take_for_a_moment(1).is_err(), "it keeps much now");
        assert!(account("new").take_for_a_moment(100_001).is_err());
        assert!(account("new").take_for_a_moment(100_000).is_ok());
        assert!(account("new").take(10_000).is_ok(), "others miss nothing");
        assert_eq!(budget.taken(), taken);
        drop(moment);
        assert!(same.take_for_a_moment(400_000).is_ok());
        assert!(same.take_for_a_moment(500_001).is_err(), "its own limit");
    }

    #[test]
    fn what_is_soon_gone_does_not_close_for_more_of_the_same_address() {
        let budget = Budget::of_passing(100);
        let groups = MemoryGroups::default();
        let account =
            |address: usize| budget.closable_account([Some(groups.of(address)), None], usize::MAX);
        let (first, same, other) = (account(1), account(1), account(2));
        let _kept = (first.take(40), other.take(15));
        assert!(same.take(10).is_err() && same.take(50).is_err());
        assert!(!first.has_to_close() && !other.has_to_close());
        let even = account(3);
        let half_as_much = even.take(25).expect("room");
        assert!(even.take(10).is_err() && !first.has_to_close());
        drop(half_as_much);
        assert!(other.take(35).is_err());
        assert!(first.has_to_close() && !other.has_to_close());
    }

    #[test]
    fn what_is_soon_gone_closes_for_another_key_of_the_same_queue() {
        let budget = Budget::of_passing(100);
        let groups = MemoryGroups::default();
        let shown = |address: usize, key: &str| {
            let account = budget.closable_account([Some(groups.of(address)), None], usize::MAX);
            account.note_key(|| PresentedKey {
                holder: "queue".to_owned(),
                key: Some(key.to_owned()),
            });
            account
        };
        let (many, same, one) = (shown(1, "many"), shown(1, "many"), shown(2, "one"));
        let _kept = many.take(40).expect("room");
        assert!(same.take(21).is_err() && !many.has_to_close());
        assert!(one.take(21).is_err() && many.has_to_close());
        let also_many = shown(3, "many");
        assert!(also_many.take(20).is_ok(), "its key has not all yet");
    }

    #[test]
    fn small_ones_go_whose_group_keeps_more() {
        for (of_group, goes) in [(5, true), (2, false)] {
            let budget = Budget::of(100);
            let groups = MemoryGroups::default();
            let account = |group: &'static str| {
                budget.closable_account([Some(groups.of(group)), None], usize::MAX)
            };
            let many: Vec<_> = (0..of_group).map(|_| account("many")).collect();
            let small: Vec<_> = many.iter().map(|each| each.take(3)).collect();
            let asking = account("asking");
            let kept = asking.take(7).expect("room");
            assert!(asking.take(90).is_err());
            let mut asked = many.iter().map(MemoryAccount::asked_to_close);
            assert_eq!(asked.any(CancellationToken::is_cancelled), goes);
            drop((small, kept));
        }
    }

    #[test]
    fn strangers_go_before_those_who_are_known() {
        let budget = Budget::of(100);
        let groups = MemoryGroups::default();
        let account = |group: &'static str| {
            budget.closable_account([Some(groups.of(group)), None], usize::MAX)
        };
        let is_closing = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
        let (known, stranger) = (account("known"), account("stranger"));
        known.note_known();
        let much = known.take(40).expect("room");
        let little = stranger.take(20).expect("room");
        assert!(stranger.take(50).is_err());
        assert!(!is_closing(&known) && !is_closing(&stranger));
        assert!(known.take(21).is_err());
        assert!(!is_closing(&stranger), "nobody has so much");
        assert!(account("new").take(50).is_err());
        assert!(is_closing(&stranger), "although it has less");
        drop((stranger, little));
        let stranger = account("stranger");
        let little = stranger.take(20).expect("room");
        let asking = account("also known");
        asking.note_known();
        let half = asking.take(25).expect("room");
        assert!(asking.take(20).is_err());
        assert!(is_closing(&stranger), "it has less than who asks");
        drop((stranger, little, half));
        assert!(account("new").take(70).is_err());
        assert!(is_closing(&known), "there are no strangers");
        drop(much);
    }

    #[test]
    fn one_key_has_no_more_from_many_addresses() {
        let budget = Budget::of(1_000);
        let groups = MemoryGroups::default();
        let account =
            |address: usize| budget.closable_account([Some(groups.of(address)), None], usize::MAX);
        let with_key = |address, key: &str| {
            let account = account(address);
            account.note_key(|| PresentedKey::alone(key.to_owned()));
            account
        };
        let mut kept: Vec<_> = (0..50)
            .map(|address| with_key(address, "key").take(10).expect("room"))
            .collect();
        assert!(with_key(50, "key").take(10).is_err(), "it has half");
        assert!(with_key(50, "other").take(10).is_ok());
        for (key, closes) in [("other", false), ("key", true)] {
            let stranger = account(50);
            let _before = stranger.take(10).expect("room");
            stranger.note_key(|| PresentedKey::alone(key.to_owned()));
            let is_closing = stranger.asked_to_close().is_cancelled();
            assert_eq!(is_closing, closes, "{key}");
        }
        let of_key = budget.0.keys.of(("key".to_owned(), None));
        let counted = || of_key.0.load(Ordering::Relaxed);
        kept[0].add_anyway(10);
        kept[0].give_back(15);
        kept.truncate(40);
        assert_eq!((counted(), budget.taken()), (395, 395));
        drop(kept);
        assert_eq!(counted(), 0);
    }

    #[test]
    fn a_part_of_a_group_leaves_as_much_of_it_as_it_has() {
        let budget = Budget::of(1_000);
        let groups = MemoryGroups::default();
        let account = |group: &'static str, part: &'static str| {
            let of_group = [Some(groups.of((group, ""))), None];
            let part = PartOfGroup {
                group: groups.of((group, part)),
                times: 1,
            };
            budget.account_within(of_group, part, usize::MAX)
        };
        let large = account("topic", "large");
        let most = large.take(250).expect("a quarter");
        assert!(account("topic", "large").take(1).is_err());
        let other = account("topic", "other").take(80).expect("room");
        assert!(account("topic", "third").take(30).is_ok());
        assert!(account("elsewhere", "large").take(160).is_ok());
        drop((most, other));
        assert_eq!(groups.of(("topic", "large")).taken(), 0);
        assert!(large.take(250).is_ok());
    }

    #[test]
    fn the_largest_part_of_a_group_makes_room_for_the_others() {
        let budget = Budget::new(1_000, 0, Duration::ZERO, Duration::ZERO);
        let groups = MemoryGroups::default();
        let account = |part: &'static str| {
            let part = PartOfGroup {
                group: groups.of(part),
                times: 31,
            };
            budget.closable_account_within([Some(groups.of("queue")), None], part, usize::MAX)
        };
        let other = account("other");
        let _kept = other.take(12).expect("room");
        let many: Vec<_> = (0..60).map(|_| account("many")).collect();
        let taken: Vec<_> = many.iter().filter_map(|each| each.take(10).ok()).collect();
        assert!((45..=48).contains(&taken.len()), "{}", taken.len());
        let is_asked = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
        let asked = || many.iter().filter(|each| is_asked(each)).count();
        let before = asked();
        assert!(other.take(12).is_ok() && asked() == before, "it is left");
        assert!(other.take(20).is_err());
        assert!(asked() > before && !is_asked(&other));
    }

    #[test]
    fn whoever_keeps_most_for_a_key_makes_room_for_others_who_show_it() {
        let budget = Budget::of(1_000);
        let groups = MemoryGroups::default();
        let shown = |address: usize| {
            let account = budget.closable_account([Some(groups.of(address)), None], usize::MAX);
            let taken = account.take(10).expect("room");
            account.note_key(|| PresentedKey::alone("key".to_owned()));
            (account, taken)
        };
        let is_asked = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
        let many: Vec<_> = (0..50).map(|number| shown(number % 2)).collect();
        let asked = || many.iter().filter(|(account, _)| is_asked(account)).count();
        assert_eq!(asked(), 0);
        let (new, _kept) = shown(2);
        assert_eq!((asked(), is_asked(&new)), (1, false));
        assert!(new.take(10).is_err());
        assert_eq!((asked(), is_asked(&new)), (2, false));
    }

    #[test]
    fn one_key_of_a_queue_leaves_something_to_the_others() {
        let budget = Budget::of(1_000);
        let groups = MemoryGroups::default();
        let shown = |address: usize, key: &str| {
            let account = budget.closable_account([Some(groups.of(address)), None], usize::MAX);
            let taken = account.take(10).expect("room");
            account.note_key(|| PresentedKey {
                holder: "queue".to_owned(),
                key: Some(key.to_owned()),
            });
            (account, taken)
        };
        let is_asked = |shown: &(MemoryAccount, TakenBytes)| {
            let (account, _) = shown;
            account.asked_to_close().is_cancelled()
        };
        let others: Vec<_> = (0..4).map(|_| shown(0, "other")).collect();
        let mut many = Vec::new();
        while !many.iter().chain(&others).any(is_asked) {
            many.push(shown(1 + many.len(), "many"));
        }
        assert_eq!(many.len(), 45);
        assert!(!others.iter().any(is_asked), "their address has most");
        assert!(others[0].0.take(10).is_ok());
    }

    #[test]
    fn what_is_kept_for_one_key_goes_if_strangers_have_less() {
        for (of_stranger, goes) in [(20, true), (45, false)] {
            let budget = Budget::of(100);
            let account = || budget.closable_account([None, None], usize::MAX);
            let is_closing = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
            let (one, other, stranger) = (account(), account(), account());
            let taken = (one.take(20), other.take(20));
            for each in [&one, &other] {
                each.note_key(|| PresentedKey::alone("key".to_owned()));
            }
            let mut strangers = stranger.nothing();
            strangers.add_anyway(of_stranger);
            let mut rest = budget.account([None, None], 100).nothing();
            rest.add_anyway(budget.left());
            assert!(account().take(2).is_err());
            let asked = [&one, &other].into_iter().filter(|each| is_closing(each));
            assert_eq!(asked.count() == 1, goes, "{of_stranger}");
            drop((taken, strangers, rest));
        }
    }

    #[test]
    fn not_all_are_looked_at_again_where_nobody_had_to_go() {
        for (known_for, looks_again) in [(Duration::ZERO, true), (Duration::MAX, false)] {
            let budget = Budget::new(100, 0, CLOSING_PATIENCE, known_for);
            let account = || budget.closable_account([None, None], 100);
            let (asking, large) = (account(), account());
            let _kept = (asking.take(20), large.take(20));
            assert!(asking.take(70).is_err());
            let before = budget.0.closable.lock().unwrap().len();
            drop(account()); // a look forgets it
            let listed = || budget.0.closable.lock().unwrap().len();
            assert_eq!(listed(), before + 1);
            assert!(asking.take(70).is_err());
            assert_eq!(listed() == before, looks_again);
            assert!(!large.asked_to_close().is_cancelled());
            // Who has less knows of it at once.
            assert!(account().take(90).is_err());
            let is_asked = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
            assert_ne!(is_asked(&asking), is_asked(&large));
        }
    }

    #[test]
    fn those_who_share_a_key_are_not_looked_at_again_in_vain() {
        let show = |account: &MemoryAccount| {
            account.note_key(|| PresentedKey::alone("key".to_owned()));
        };
        let looks = |budget: &Budget, ask: &dyn Fn()| {
            drop(budget.closable_account([None, None], 100)); // a look forgets it
            let listed = || budget.0.closable.lock().unwrap().len();
            let before = listed();
            ask();
            listed() < before
        };
        for (known_for, looks_again) in [(Duration::ZERO, true), (Duration::MAX, false)] {
            let new_budget = || Budget::new(100, 0, CLOSING_PATIENCE, known_for);
            let budget = new_budget();
            let account = || budget.closable_account([None, None], 100);
            let (asking, other) = (account(), account());
            let _kept = (asking.take(20), other.take(10));
            [&asking, &other].into_iter().for_each(show);
            let ask = || assert!(asking.take(45).is_err());
            assert!(looks(&budget, &ask));
            assert_eq!(looks(&budget, &ask), looks_again);
            // Requests that a proxy passes on cannot be closed.
            let of_proxy = new_budget();
            let show_by_proxy = || {
                let request = of_proxy.account([None, None], 100);
                let mut taken = request.nothing();
                taken.add_anyway(60);
                show(&request);
            };
            assert!(looks(&of_proxy, &show_by_proxy));
            assert_eq!(looks(&of_proxy, &show_by_proxy), looks_again);
        }
    }

    #[test]
    fn who_is_gone_is_not_the_next_one_any_more() {
        let budget = Budget::new(100, 0, CLOSING_PATIENCE, Duration::MAX);
        let account = || budget.closable_account([None, None], 100);
        let (largest, next) = (account(), account());
        let kept = (largest.take(30), next.take(10));
        assert!(largest.take(65).is_err());
        drop((largest, kept.0));
        assert!(account().take(95).is_err());
        assert!(next.asked_to_close().is_cancelled());
    }

    #[test]
    fn who_cannot_close_any_more_keeps_nobody_from_closing() {
        let budget = Budget::of(100);
        let account = || budget.closable_account([None, None], 100);
        let (upgraded, other) = (account(), account());
        let _kept = (upgraded.take(40), other.take(20));
        upgraded.stay();
        assert!(account().take(90).is_err());
        assert!(other.asked_to_close().is_cancelled());
    }

    #[test]
    fn who_was_asked_and_does_not_go_keeps_nobody_else() {
        for (patience, is_next_asked) in [(Duration::MAX, false), (Duration::ZERO, true)] {
            let budget = Budget::new(100, 0, patience, KNOWN_FOR);
            let account = || budget.closable_account([None, None], 100);
            let (stuck, next) = (account(), account());
            let _kept = (stuck.take(40), next.take(20));
            let is_asked = |account: &MemoryAccount| account.asked_to_close().is_cancelled();
            assert!(account().take(90).is_err());
            assert!(is_asked(&stuck) && !is_asked(&next));
            assert!(account().take(90).is_err());
            assert_eq!(is_asked(&next), is_next_asked);
            stuck.stay();
            assert!(account().take(90).is_err());
            assert!(is_asked(&next), "its connection is gone");
        }
    }

    #[tokio::test]
    async fn one_account_takes_more_than_there_is_and_groups_take_turns() {
        let budget = Budget::of(100);
        let groups = MemoryGroups::default();
        let account = |key: &str| budget.account([Some(groups.of(key.to_owned())), None], 100);
        let (busy, other, quiet) = (account("busy"), account("busy"), account("quiet"));
        let first = busy.turn_beyond().await;
        let mut second = pin!(busy.turn_beyond());
        let mut third = pin!(other.turn_beyond());
        let mut of_quiet = pin!(quiet.turn_beyond());
        assert!(poll!(&mut second).is_pending());
        assert!(poll!(&mut third).is_pending());
        assert!(poll!(&mut of_quiet).is_pending());
        drop(first);
        let next = second.await;
        assert!(poll!(&mut of_quiet).is_pending());
        drop(next);
        let next = of_quiet.await;
        assert!(poll!(&mut third).is_pending());
        drop(next);
        drop(third.await);
    }

    #[test]
    fn groups_without_accounts_are_forgotten() {
        let groups = MemoryGroups::default();
        for key in 0..10_000 {
            drop(groups.of(key));
        }
        assert!(groups.0.lock().unwrap().len() < 100);
        let kept = groups.of(7);
        assert!(Arc::ptr_eq(&kept.0, &groups.of(7).0));
    }
}
