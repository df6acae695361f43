//! Bytes that are kept for clients. They are taken before anything is kept, and a guard gives them back.

mod closing;

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::places::{Places, TakenPlace};
use closing::{CLOSING_PATIENCE, Going, KNOWN_FOR};

/// Bytes up to which an account and its groups keep little: connections with a few requests or links, such as most clients have.
const LITTLE_BYTES: usize = 128 * 1_024;

/// How many times as much a key may have as it leaves to the other keys of its holder, such as a queue: it keeps none of them from
/// sending or receiving.
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
    /// Bytes left beyond these for those who keep little, for a moment.
    reserve: AtomicUsize,
    taken: AtomicUsize,
    /// Bytes that those keep who can be closed and have shown no key.
    of_strangers: AtomicUsize,
    /// Accounts that can be closed to make room.
    closable: Mutex<Vec<Weak<AccountState>>>,
    /// The closable accounts that are asked to close before others, in the order in which they came, as last looked at:
    /// those whose clients have shown no key, or all if `is_passing`.
    strangers: Mutex<VecDeque<Weak<AccountState>>>,
    going: Mutex<Going>,
    patience: Duration,
    known_for: Duration,
    /// Groups of accounts whose clients have shown a key since: by its holder, and by the key if the holder has several.
    keys: MemoryGroups<(String, Option<String>)>,
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
    /// How many times as much a part may have as it leaves of the first group.
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
    is_closable: bool,
    /// Bytes of it that count among those of strangers.
    as_stranger: AtomicUsize,
    /// True once its client has shown a valid key or token.
    is_known: AtomicBool,
    /// The groups of the key that its client has shown first.
    of_key: OnceLock<GroupOfKey>,
    /// True while what it waits for does not come as fast as it has to.
    is_late: AtomicBool,
    /// True if it does not close any more once its client has shown a key.
    stays_once_known: AtomicBool,
    /// True once it does not close any more when it is asked to.
    stays: AtomicBool,
    /// Made when somebody first asks for it: most accounts are those of single requests, which never close.
    close: OnceLock<CancellationToken>,
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
    /// How many of them are of the reserve.
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

    /// So many bytes for what is gone soon by itself, such as bodies of requests. An account that wants more than it could have alone
    /// waits until some of its own are gone, and others close only for one that has less than half as much: new requests do not end
    /// others of their address, and large requests do not end each other.
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
        self.account_in(groups, None, bytes_max, false)
    }

    /// An account that shares what its first group may have with those of other parts of it.
    pub fn account_within(
        &self,
        groups: GroupsOfAccount,
        part: PartOfGroup,
        bytes_max: usize,
    ) -> MemoryAccount {
        self.account_in(groups, Some(part), bytes_max, false)
    }

    fn account_in(
        &self,
        groups: GroupsOfAccount,
        part: Option<PartOfGroup>,
        bytes_max: usize,
        is_closable: bool,
    ) -> MemoryAccount {
        MemoryAccount(Arc::new(AccountState {
            total: Arc::clone(&self.0),
            groups,
            part,
            bytes_max,
            taken: AtomicUsize::new(0),
            is_closable,
            as_stranger: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
            of_key: OnceLock::new(),
            is_late: AtomicBool::new(false),
            stays_once_known: AtomicBool::new(false),
            stays: AtomicBool::new(false),
            close: OnceLock::new(),
        }))
    }

    /// An account that is asked to close when others need its room and it has most. Those whose clients have shown no key or
    /// token go first.
    pub fn closable_account(&self, groups: GroupsOfAccount, bytes_max: usize) -> MemoryAccount {
        self.closable(groups, None, bytes_max)
    }

    /// An account as [`Budget::closable_account`] has it, which shares what its first group may have. In the largest group, an account
    /// of the largest part closes first.
    pub fn closable_account_within(
        &self,
        groups: GroupsOfAccount,
        part: PartOfGroup,
        bytes_max: usize,
    ) -> MemoryAccount {
        self.closable(groups, Some(part), bytes_max)
    }

    fn closable(
        &self,
        groups: GroupsOfAccount,
        part: Option<PartOfGroup>,
        bytes_max: usize,
    ) -> MemoryAccount {
        let account = self.account_in(groups, part, bytes_max, true);
        let mut closable = self.0.closable.lock().unwrap();
        if closable.len() == closable.capacity() {
            closable.retain(|each| each.strong_count() > 0);
        }
        closable.push(Arc::downgrade(&account.0));
        let mut strangers = self.0.strangers.lock().unwrap();
        if strangers.len() == strangers.capacity() {
            strangers.retain(|each| each.strong_count() > 0);
        }
        strangers.push_back(Arc::downgrade(&account.0));
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
            of_strangers: AtomicUsize::new(0),
            closable: Mutex::default(),
            strangers: Mutex::default(),
            going: Mutex::default(),
            patience,
            known_for,
            keys: MemoryGroups::default(),
        }
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

    /// Returns whether it was asked to close.
    fn is_asked(&self) -> bool {
        let close = self.close.get();
        close.is_some_and(CancellationToken::is_cancelled)
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

    /// Returns whether `bytes` more are within its own limit.
    fn allows(&self, bytes: usize) -> bool {
        self.taken().saturating_add(bytes) <= self.bytes_max
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

    /// Returns what is left for it for a moment beyond its share: something if it keeps little.
    fn reserve(&self) -> usize {
        let keeps = self.taken().max(self.taken_by_first_group());
        if keeps <= LITTLE_BYTES {
            self.total.reserve.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    fn add_anyway(&self, bytes: usize) {
        self.total.taken.fetch_add(bytes, Ordering::Relaxed);
        self.add(bytes);
    }

    fn add(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        if self.is_closable && !self.is_known() {
            self.as_stranger.fetch_add(bytes, Ordering::Relaxed);
            self.total.of_strangers.fetch_add(bytes, Ordering::Relaxed);
        }
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
        self.count_as_known(bytes);
        self.count_for_key();
    }

    /// Has up to so many bytes count no more among those of strangers.
    fn count_as_known(&self, bytes: usize) {
        let order = Ordering::Relaxed;
        let less = |counted: usize| (counted > 0).then(|| counted.saturating_sub(bytes));
        if let Ok(before) = self.as_stranger.fetch_update(order, order, less) {
            self.total.of_strangers.fetch_sub(before.min(bytes), order);
        }
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

    /// Returns whether so many bytes could be taken now, if need be of strangers who leave for it.
    pub fn has_room(&self, bytes: usize) -> bool {
        let all = self.0.total.taken.load(Ordering::Relaxed);
        let has_share = self.0.share_allows(all, bytes);
        self.0.allows(bytes) && (has_share || self.0.goes_before_strangers(bytes))
    }

    /// Returns whether so many bytes could be taken for a moment now.
    pub fn has_room_for_a_moment(&self, bytes: usize) -> bool {
        let all = self.0.total.taken.load(Ordering::Relaxed);
        self.0.allows(bytes) && (self.0.share_allows(all, bytes) || bytes <= self.0.reserve())
    }

    /// Bytes that it keeps, or the largest of its groups.
    pub fn own(&self) -> usize {
        self.0.own()
    }

    /// Notes that its client has shown a valid key or token: strangers go before it when others need room.
    pub fn note_known(&self) {
        self.0.is_known.store(true, Ordering::Relaxed);
        self.0.count_as_known(usize::MAX);
    }

    /// Notes that its client has shown this key: what it keeps counts for the key and its holder. If the holder has half of everything,
    /// or the key leaves the others of its holder nothing, one of them has to close: of the key that has most, the largest account of
    /// the address that has most.
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

    /// Asks a stranger to close where there is no place for the connection of this account. Returns whether one closes.
    pub fn ask_for_a_place(&self) -> bool {
        self.0.total.let_stranger_go(&self.0)
    }

    /// Notes whether what it waits for comes slower than it has to. Where everything is soon gone, those that are late go before all
    /// others, however little they keep.
    pub fn note_late(&self, is_late: bool) {
        self.0.is_late.store(is_late, Ordering::Relaxed);
    }

    /// Notes that it cannot be asked to close any more once its client has shown a valid key or token.
    pub fn stay_once_known(&self) {
        self.0.stays_once_known.store(true, Ordering::Relaxed);
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
            .or_else(|NothingLeft| self.add_of_strangers(bytes))
            .inspect_err(|NothingLeft| self.ask_for_room(bytes))
    }

    /// Takes more for what is soon over, such as reading a message that is handed out. Accounts that keep little have a reserve
    /// for it, which those that keep much cannot take from them. Others do not miss what is taken of the reserve.
    pub fn add_for_a_moment(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        self.add_of_share(bytes)
            .or_else(|NothingLeft| self.add_of_reserve(bytes))
            .or_else(|NothingLeft| self.add_of_strangers(bytes))
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

    /// Takes bytes that strangers keep, which leave for it.
    fn add_of_strangers(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        let holder = &self.account.0;
        if !holder.allows(bytes) || !holder.total.take_of_strangers(holder, bytes) {
            return Err(NothingLeft);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts bytes that are there already, even if that makes too many: then nobody can take more.
    pub fn add_anyway(&mut self, bytes: usize) {
        let holder = &self.account.0;
        holder.add_anyway(bytes);
        self.bytes += bytes;
    }

    /// Gives some back.
    pub fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.bytes, "{bytes} of {} bytes", self.bytes);
        let returned = bytes.min(self.bytes);
        let of_reserve = returned.min(self.of_reserve);
        self.account.0.give_back(returned, of_reserve);
        self.bytes -= returned;
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
mod tests;
