//! Memory budgets for data that is kept for clients. Bytes are reserved before data is kept, and a guard returns them
//! when it is dropped.

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

/// Ratio of the bytes that a key may keep to the bytes that it must leave for the other keys of its holder, such as a
/// queue, so that no key keeps the others from sending or receiving.
pub const KEY_TIMES: usize = 31;

/// A limit on the bytes that all accounts may keep together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    /// The place of the one account that may exceed the budget. Groups take turns for it.
    beyond: Places<GroupId>,
    /// True if the bytes are soon returned without anybody being asked, as for request bodies.
    is_passing: bool,
    bytes_max: usize,
    /// Bytes left in the reserve beyond `bytes_max`, for short use by accounts that keep little.
    reserve: AtomicUsize,
    taken: AtomicUsize,
    /// Bytes of strangers: closable accounts whose clients have shown no key or token.
    of_strangers: AtomicUsize,
    /// Accounts that can be closed to make room.
    closable: Mutex<Vec<Weak<AccountState>>>,
    /// Closable accounts that are asked to close before others, oldest first: those whose clients have shown no key, or
    /// all if `is_passing`. Accounts that no longer qualify are removed at the next scan.
    strangers: Mutex<VecDeque<Weak<AccountState>>>,
    going: Mutex<Going>,
    patience: Duration,
    known_for: Duration,
    /// Groups of accounts whose clients have shown a key: by holder, and by key if the holder has several.
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

/// The groups of one account. An array, to avoid an allocation, since each publish request has an account.
pub type GroupsOfAccount = [Option<MemoryGroup>; 2];

/// Groups by the key that their accounts have in common. Groups without accounts are removed from time to time.
#[derive(Debug)]
pub struct MemoryGroups<K>(Mutex<HashMap<K, Weak<AtomicUsize>>>);

/// A part of the first group of an account, such as the share of one address in a topic. Each part leaves bytes for
/// the other parts.
#[derive(Debug)]
pub struct PartOfGroup {
    pub group: MemoryGroup,
    /// Ratio of the bytes that the part may keep to the bytes that it must leave for the rest of the group.
    pub times: usize,
}

/// A key that a client has shown, or a token or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentedKey {
    /// The entity that the key belongs to, such as a queue. All keys of a holder form one group.
    pub holder: String,
    /// The key among those of its holder; `None` if the holder has only one.
    pub key: Option<String>,
}

impl PresentedKey {
    /// Returns the only key of its holder, such as a token.
    pub fn alone(holder: String) -> Self {
        Self { holder, key: None }
    }
}

/// The bytes of one connection or request. Cheap to clone.
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
    /// Bytes of the account that count as bytes of strangers.
    as_stranger: AtomicUsize,
    /// True once its client has shown a valid key or token.
    is_known: AtomicBool,
    /// The groups of the first key that the client has shown.
    of_key: OnceLock<GroupOfKey>,
    /// True while the data that the account waits for arrives slower than required.
    is_late: AtomicBool,
    /// True if the account can no longer be asked to close once its client has shown a key.
    stays_once_known: AtomicBool,
    /// True once the account can no longer be asked to close.
    stays: AtomicBool,
    /// Created on first use: most accounts belong to single requests, which are never asked to close.
    close: OnceLock<CancellationToken>,
}

/// The groups that an account joins when its client shows a key.
#[derive(Debug)]
struct GroupOfKey {
    /// The group of the holder.
    group: MemoryGroup,
    /// The group of the key, if the holder has several.
    part: Option<PartOfGroup>,
    /// Bytes of the account that are counted in these groups.
    counted: Mutex<usize>,
}

/// A guard over bytes taken from a budget. Returns them when it is dropped.
#[derive(Debug)]
pub struct TakenBytes {
    account: MemoryAccount,
    bytes: usize,
    /// Number of `bytes` that came from the reserve.
    of_reserve: usize,
}

/// Identifies a group, or an account without a group, as long as it exists.
type GroupId = usize;

/// The right to exceed the budget, until it is dropped.
pub type BeyondTurn = TakenPlace<GroupId>;

/// Why bytes cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no memory left for it")]
pub struct NothingLeft;

impl Budget {
    /// Creates a budget of `bytes_max` bytes.
    pub fn of(bytes_max: usize) -> Self {
        Self::with_reserve(bytes_max, 0)
    }

    /// Creates a budget of `bytes_max` bytes with an additional reserve for [`TakenBytes::add_for_a_moment`].
    pub fn with_reserve(bytes_max: usize, reserve: usize) -> Self {
        Self::new(bytes_max, reserve, CLOSING_PATIENCE, KNOWN_FOR)
    }

    /// Creates a budget for data that is soon gone by itself, such as request bodies. An account that wants more than
    /// it could have alone waits until some of its own bytes are returned. Another account closes only for an account
    /// that has less than half as much. New requests thus do not end others of their address, and large requests do not
    /// end each other.
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

    /// Creates an account that is never asked to close.
    pub fn account(&self, groups: GroupsOfAccount, bytes_max: usize) -> MemoryAccount {
        self.account_in(groups, None, bytes_max, false)
    }

    /// Creates an account that is never asked to close and belongs to a part of its first group.
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

    /// Creates an account that may be asked to close when others need memory and it keeps most. Accounts whose clients
    /// have shown no key or token are asked first.
    pub fn closable_account(&self, groups: GroupsOfAccount, bytes_max: usize) -> MemoryAccount {
        self.closable(groups, None, bytes_max)
    }

    /// Creates an account like [`Budget::closable_account`] that belongs to a part of its first group. In the largest
    /// group, an account of the largest part closes first.
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

    /// Returns the size of the budget in bytes, without the reserve.
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
    /// Returns the group of the accounts with this key. Creates the group if there is none.
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

    /// Returns the bytes of the largest group that the account has belonged to since its creation, such as its address.
    fn taken_by_first_group(&self) -> usize {
        let groups = self.groups.iter().flatten();
        groups.map(MemoryGroup::taken).max().unwrap_or(0)
    }

    fn taken_for_key(&self) -> usize {
        let of_key = self.of_key.get();
        of_key.map_or(0, |of_key| of_key.group.taken())
    }

    /// Returns the bytes that count against the share of the account: its own or those of its largest group.
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

    /// Returns the parts that the account belongs to, each with its group.
    fn parts(&self) -> impl Iterator<Item = (&PartOfGroup, &MemoryGroup)> {
        let [first, _] = &self.groups;
        let of_first = self.part.as_ref().zip(first.as_ref());
        let shown = self.of_key.get();
        let of_key = shown.and_then(|of_key| Some((of_key.part.as_ref()?, &of_key.group)));
        of_first.into_iter().chain(of_key)
    }

    /// Returns whether `bytes` more are within the limit of the account.
    fn allows(&self, bytes: usize) -> bool {
        self.taken().saturating_add(bytes) <= self.bytes_max
    }

    /// Returns whether the rule for shares lets `bytes` be added where `all` are taken.
    fn share_allows(&self, all: usize, bytes: usize) -> bool {
        let left = self.total.bytes_max.saturating_sub(all);
        self.own().saturating_add(bytes) <= left && self.part_allows(left, bytes)
    }

    /// Returns whether the parts of the account may take `bytes` if the budget has `left` bytes left.
    fn part_allows(&self, left: usize, bytes: usize) -> bool {
        self.parts().all(|(part, group)| {
            let left_of_group = left.saturating_sub(group.taken()) / 2;
            part.group.taken().saturating_add(bytes) <= left_of_group.saturating_mul(part.times)
        })
    }

    /// Returns whether the accounts of its key, or of its holder, keep more than they could take if there were no other
    /// accounts.
    fn key_has_too_much(&self) -> bool {
        let of_holder = self.taken_for_key();
        let left = self.total.bytes_max.saturating_sub(of_holder);
        of_holder > left || !self.part_allows(left, 0)
    }

    /// Returns the bytes of the reserve that are available to the account: 0 unless the account keeps little.
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

    /// Counts the bytes of the account for the key that its client has shown, if any.
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

    /// Returns `bytes` to the budget, `of_reserve` of them to the reserve.
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

    /// Removes up to `bytes` of the account from the bytes of strangers.
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
    /// Takes bytes if the limits allow. An account may keep up to its own limit. The account and each of its groups may
    /// keep no more than is left in the budget, so that nobody can take everything.
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

    /// Returns a guard over no bytes, to which bytes can be added.
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

    /// Returns whether `bytes` could be taken now, if necessary by asking strangers to close.
    pub fn has_room(&self, bytes: usize) -> bool {
        let all = self.0.total.taken.load(Ordering::Relaxed);
        let has_share = self.0.share_allows(all, bytes);
        self.0.allows(bytes) && (has_share || self.0.goes_before_strangers(bytes))
    }

    /// Returns whether [`MemoryAccount::take_for_a_moment`] could take `bytes` without asking anybody to close.
    pub fn has_room_for_a_moment(&self, bytes: usize) -> bool {
        let all = self.0.total.taken.load(Ordering::Relaxed);
        self.0.allows(bytes) && (self.0.share_allows(all, bytes) || bytes <= self.0.reserve())
    }

    /// Returns the bytes of the account or of its largest group, whichever is more.
    pub fn own(&self) -> usize {
        self.0.own()
    }

    /// Notes that the client has shown a valid key or token. From then on, strangers are asked to close before it.
    pub fn note_known(&self) {
        self.0.is_known.store(true, Ordering::Relaxed);
        self.0.count_as_known(usize::MAX);
    }

    /// Notes that the client has shown this key. The bytes of the account then count for the key and its holder. If the
    /// holder keeps more than half of the budget, or the key leaves too little for the others of its holder, one
    /// account of the holder has to close: of the key that keeps most, the largest account of the address that keeps
    /// most.
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

    /// Asks a stranger to close to free a place for the connection of this account. Returns whether one closes.
    pub fn ask_for_a_place(&self) -> bool {
        self.0.total.let_stranger_go(&self.0)
    }

    /// Notes whether the data that the account waits for arrives slower than required. In a budget made with
    /// [`Budget::of_passing`], late accounts close before all others, however little they keep.
    pub fn note_late(&self, is_late: bool) {
        self.0.is_late.store(is_late, Ordering::Relaxed);
    }

    /// Notes that the account can no longer be asked to close once its client has shown a valid key or token.
    pub fn stay_once_known(&self) {
        self.0.stays_once_known.store(true, Ordering::Relaxed);
    }

    /// Notes that the account can no longer be asked to close.
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

    /// Returns a token that is cancelled when the account has to close because others need its memory.
    pub fn asked_to_close(&self) -> &CancellationToken {
        self.0.close.get_or_init(CancellationToken::new)
    }

    /// Waits for the right to exceed the budget, so that nobody waits for memory forever. Only one account has this
    /// right at a time, and the accounts of a group share one turn.
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

    /// Takes more bytes for brief use, such as reading a message for delivery. Accounts that keep little may use a
    /// reserve for it, which accounts that keep much cannot use. Bytes from the reserve do not reduce the budget of
    /// others.
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

    /// Takes bytes that strangers keep, and asks these strangers to close.
    fn add_of_strangers(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        let holder = &self.account.0;
        if !holder.allows(bytes) || !holder.total.take_of_strangers(holder, bytes) {
            return Err(NothingLeft);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts bytes that are already in memory, even if that exceeds the budget.
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

    /// Takes or returns bytes so that the guard holds `bytes`.
    pub fn resize(&mut self, bytes: usize) -> Result<(), NothingLeft> {
        if bytes > self.bytes {
            return self.add(bytes - self.bytes);
        }
        self.give_back(self.bytes - bytes);
        Ok(())
    }

    /// Sets the number of bytes even if that exceeds the budget, as [`TakenBytes::add_anyway`] does.
    pub fn resize_anyway(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.add_anyway(bytes - self.bytes);
        } else {
            self.give_back(self.bytes - bytes);
        }
    }

    /// Moves the bytes to another account, even if that exceeds its limit.
    pub fn move_to(&mut self, account: &MemoryAccount) {
        let mut moved = account.nothing();
        moved.add_anyway(self.bytes);
        *self = moved;
    }

    /// Bytes that were taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the account that the bytes count for.
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
