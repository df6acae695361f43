//! A database with one writer and many readers.
//!
//! All changes run on one thread; changes of one party (`Whose`) run in the order of arrival. Changes that wait at the
//! same time form a group, which shares one transaction and one fsync. Callers get their results after the fsync. A
//! group that consists only of locks is written without an fsync: see [`Durability`]. A change that fails is rolled
//! back alone. Each read sees one snapshot and never waits for the writer.
//!
//! After a fatal error of a change, a commit or a read, the file can no longer be written or trusted. A fatal error
//! ends the process, see [`FatalHandler`]; callers need not check for fatal errors.
//!
//! A change does no I/O of its own and hashes no payloads: it only writes prepared values, because all other changes
//! wait for it.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::base::places::Places;
use crate::base::{Clock, Stopwatch, Timestamp};
use crate::model::limits::REQUEST_ID_WINDOW;
use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::store::engine::answers::{Answers, EndedGroup, Reply};
use crate::store::engine::checkpoints::Checkpointer;
use crate::store::engine::checksum;
use crate::store::engine::fatal::{FatalHandler, OnFatal, ReportPanic};
use crate::store::engine::inline::InlineDatabase;
use crate::store::engine::queue::{self, Durability, Lane, Whose, queue};
use crate::store::engine::reserve::Reserve;
use crate::store::engine::upkeep::EngineStatus;
use crate::store::engine::write_times::{Longest, WriteTimes};
use crate::store::error::{ChangeError, StoreError};
use crate::store::ledger::counters::{QueueSums, UnwrittenCounts};
use crate::store::ledger::ids::Ids;
use crate::store::ledger::request_marks::RequestMarks;
use crate::store::sql::Sql;
use crate::store::views::event_filter::add_functions;

/// Maximum number of rows in one commit. This limit and `GROUP_TIME_MAX`, the time a group may run before it is
/// committed, bound the wait of the first change in the group and of all changes that wait behind the group.
const GROUP_ROWS_MAX: u64 = 2_000;
const GROUP_TIME_MAX: Duration = Duration::from_millis(20);

/// Number of reader threads: enough for the dispatcher and a few page requests at once on a small machine.
const READERS: usize = 4;

/// Maximum number of readers that serve client requests about entities at once.
const ENTITY_READERS: usize = READERS / 2;

/// Maximum number of reads that wait for a reader.
const READ_QUEUE_MAX: usize = 1_024;

/// Longest time of one read before it is interrupted. An old snapshot prevents the write-ahead log from starting over.
const READ_DEADLINE: Duration = Duration::from_secs(1);

/// Steps of SQLite's virtual machine between two checks of the deadline.
const PROGRESS_STEPS: i32 = 20_000;

/// Number of pages in the write-ahead log beyond which the writer makes the log start over: 32 MiB.
const LOG_PAGES_MAX: u64 = 4_096;

/// Number of pages in the log beyond which a commit itself runs a checkpoint: 128 MiB. This is the fallback if the
/// checkpoint thread cannot.
const LOG_PAGES_LAST_RESORT: u32 = 16_384;

/// Page size. With 8 KiB pages, rows of 1 KiB cost a fifth less CPU and a seventh less disk than with 4 KiB pages. With
/// 16 KiB pages, many events that are stored together would cost slightly less, but a commit of one event, which
/// changes nine pages, would write twice as much.
pub(super) const PAGE_BYTES: u32 = 8_192;

const PRAGMAS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA busy_timeout = 5000;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
    PRAGMA mmap_size = 0;
    PRAGMA temp_store = MEMORY;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -16384;
";

/// Number of prepared statements that each connection caches; larger than the number of existing statements.
const STATEMENTS_CACHED: usize = 128;

type Change = Box<dyn FnOnce(&WriteTx) -> Ran + Send>;
type Query = Box<dyn FnOnce(&mut ReadConnection) + Send>;

/// A change that has run: `reply` sends the result to the caller once the outcome of the commit is known, and `failure`
/// is an error because of which the group must not be committed.
struct Ran {
    reply: Reply,
    failure: Option<StoreError>,
}

/// Time to wait for the lock of another program before the lock is reported. Publishers wait during this time.
const LOCK_TOLD_AFTER: Duration = Duration::from_secs(1);

/// A handle on the database. Cheap to clone; the threads end when the last handle is dropped.
#[derive(Clone)]
pub(in crate::store) struct Db {
    backend: Backend,
    /// Notified of every commit.
    commits: watch::Sender<()>,
    queue_sums: QueueSums,
    /// The lane in which changes of the handle wait for the writer.
    lane: Lane,
}

#[derive(Clone)]
enum Backend {
    Threads {
        changes: Arc<queue::Sender<Change>>,
        queries: mpsc::Sender<Query>,
        /// See [`Db::read_in_turn`]. Each topic always uses the same one of these places, and shares it with other
        /// topics.
        entity_readers: [Places<Whose>; ENTITY_READERS],
        log: Arc<WriteAheadLog>,
        write_times: Arc<WriteTimes>,
        /// See [`WriterConnection::locked_out`].
        locked_out: Arc<AtomicBool>,
        /// Tracks the threads that have the file open.
        threads: TaskTracker,
    },
    /// Runs on the caller's thread, so that a simulation is deterministic.
    Inline(InlineDatabase),
}

/// The connection that writes.
pub(super) struct WriterConnection {
    tx: WriteTx,
    write_times: Arc<WriteTimes>,
    /// Is true while another program holds the lock on the file.
    locked_out: Arc<AtomicBool>,
    /// Current durability of commits.
    durability: Cell<Durability>,
}

/// The connection that writes, as changes use it. Changes run in a group, which is committed or rolled back as a whole.
pub(in crate::store) struct WriteTx {
    connection: Connection,
    /// Counts of the current group that are not written yet.
    counts: RefCell<UnwrittenCounts>,
    /// Counts of the group before the current change, while a change runs that can be rolled back alone.
    before: RefCell<UnwrittenCounts>,
    marks: RefCell<RequestMarks>,
    ids: Ids,
    queue_sums: QueueSums,
}

impl Deref for WriteTx {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl WriteTx {
    /// Returns the unwritten counts, to which a change adds its effects on events and deliveries.
    pub(in crate::store) fn counts(&self) -> RefMut<'_, UnwrittenCounts> {
        self.counts.borrow_mut()
    }

    /// Returns the number of the next message of a queue. The number is assigned with [`WriteTx::counts`]. A change
    /// that is rolled back leaves no gap.
    pub(in crate::store) fn next_number(&self, queue: SubscriptionId) -> i64 {
        let group = self.before.borrow().numbered(queue) + self.counts.borrow().numbered(queue);
        self.queue_sums.numbered(queue) + group + 1
    }

    /// Returns the marks by which repeated publish requests are recognized.
    pub(in crate::store) fn marks(&self) -> RefMut<'_, RequestMarks> {
        self.marks.borrow_mut()
    }

    pub(in crate::store) fn ids(&self) -> &Ids {
        &self.ids
    }
}

/// The write-ahead log.
struct WriteAheadLog {
    path: PathBuf,
    /// The database file.
    of: PathBuf,
    /// Is true if the log is to be truncated after the next commit.
    to_truncate: AtomicBool,
    /// Is true while a reader holds one snapshot for a long time; see [`LogHold`].
    is_held: AtomicBool,
    /// Disk space reserved for checkpoints on a full disk.
    reserve: Reserve,
}

/// Stops checkpoints of the log until the value is dropped. Pages after the held snapshot cannot be copied, and finding
/// that out costs more the longer the log is. Only one value exists at a time.
pub(in crate::store) struct LogHold(Arc<WriteAheadLog>);

impl Drop for LogHold {
    fn drop(&mut self) {
        self.0.is_held.store(false, Ordering::Relaxed);
    }
}

impl WriteAheadLog {
    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Returns the last write to the database file, which is the last checkpoint, since only checkpoints write to it.
    fn written_back_at(&self) -> Option<Timestamp> {
        let written_at = std::fs::metadata(&self.of).ok()?.modified().ok()?;
        Some(Timestamp::from_system(written_at))
    }
}

struct ReadConnection {
    connection: Connection,
    fatal_handler: Arc<FatalHandler>,
    /// When the current query must end, by `clock`.
    deadline: Arc<AtomicI64>,
    clock: Clock,
}

impl Db {
    /// Opens the writer and the readers on the file `path`, which must have been migrated.
    pub(in crate::store) fn open(
        path: &Path,
        clock: &Clock,
        on_fatal: OnFatal,
    ) -> Result<Self, StoreError> {
        let fatal_handler = Arc::new(FatalHandler::new(on_fatal));
        let (changes, waiting) = queue();
        let commits = watch::Sender::new(());
        let log = Arc::new(WriteAheadLog {
            path: log_of(path),
            of: path.to_owned(),
            to_truncate: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            reserve: Reserve::beside(path),
        });
        log.reserve.hold();
        let since = clock.now() - REQUEST_ID_WINDOW;
        let writer_connection = WriterConnection::new(open_writer(path)?, since);
        let queue_sums = writer_connection.queue_sums().clone();
        let connection = writer_connection.connection();
        connection.busy_timeout(LOCK_TOLD_AFTER)?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_LAST_RESORT)?;
        let write_times = Arc::clone(&writer_connection.write_times);
        let locked_out = Arc::clone(&writer_connection.locked_out);
        let (reading, readers) = blocking::channel();
        let writer = Writer {
            readers,
            committed: commits.clone(),
            writer_connection,
            log: Arc::clone(&log),
            checkpointer: Checkpointer::begin(path, Arc::clone(&fatal_handler))?,
            log_is_held: false,
            answers: Answers::begin(Arc::clone(&fatal_handler)),
            fatal_handler: Arc::clone(&fatal_handler),
        };
        let threads = TaskTracker::new();
        threads.close();
        let until_closed = threads.token();
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                writer.run(&waiting);
                drop(until_closed);
            })
            .map_err(|cause| StoreError::Other(format!("cannot start the writer: {cause}")))?;
        let (queries, waiting) = mpsc::channel(READ_QUEUE_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..READERS {
            let reader = ReadConnection::open(path, clock, Arc::clone(&fatal_handler))?;
            let (waiting, until_closed) = (Arc::clone(&waiting), threads.token());
            let reading = reading.clone();
            thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || {
                    reader.run(&waiting);
                    drop((reading, until_closed));
                })
                .map_err(|cause| StoreError::Other(format!("cannot start a reader: {cause}")))?;
        }
        Ok(Self {
            backend: Backend::Threads {
                changes: Arc::new(changes),
                queries,
                entity_readers: std::array::from_fn(|_| Places::of(1)),
                log,
                write_times,
                locked_out,
                threads,
            },
            commits,
            queue_sums,
            lane: Lane::of(Whose::Appliance),
        })
    }

    /// Returns a handle that runs everything on the caller's thread.
    pub(in crate::store) fn inline(database: InlineDatabase) -> Self {
        let queue_sums = database.writer_connection().queue_sums().clone();
        Self {
            backend: Backend::Inline(database),
            commits: watch::Sender::new(()),
            queue_sums,
            lane: Lane::of(Whose::Appliance),
        }
    }

    /// Returns a handle whose changes wait in `lane`. Changes that clients ask for take turns with the changes of other
    /// parties; changes of a handle without a chosen lane count as changes of the appliance.
    pub(in crate::store) fn in_lane(&self, lane: Lane) -> Self {
        Self {
            lane,
            ..self.clone()
        }
    }

    /// Returns a handle whose changes take the turns of `whose`.
    pub(in crate::store) fn of(&self, whose: Whose) -> Self {
        self.in_lane(Lane::of(whose))
    }

    /// Updates the catalog that tells which queues and subscriptions share a turn.
    pub(in crate::store) fn set_catalog(&self, registry: &Registry) {
        match &self.backend {
            Backend::Threads { changes, .. } => changes.topics().set(registry),
            Backend::Inline(_) => {}
        }
    }

    /// Runs `change` in the next group, and returns once the group is on disk.
    ///
    /// A change that was sent runs even if the caller stops waiting. [`StoreError::Closed`] after a change was sent
    /// means that the outcome is unknown, not that the change failed.
    pub(in crate::store) async fn write<T, E, F>(&self, change: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: ChangeError,
        F: FnOnce(&WriteTx) -> Result<T, E> + Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        let change: Change = Box::new(move |tx| {
            let result = undo_alone(tx, change);
            // The whole group fails if the file failed, or if SQLite rolled back the transaction, which happens on
            // a full disk. After any other error, the change was already rolled back alone.
            let error = result.as_ref().err().and_then(E::store_error);
            let failure = error
                .cloned()
                .map(StoreError::of_change)
                .filter(|error| error.is_fatal() || tx.is_autocommit());
            let reply: Reply =
                Box::new(move |commit| drop(sender.send(result_for_caller(result, commit))));
            Ran { reply, failure }
        });
        self.submit(change).await?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    /// Like [`Db::write`], but without a savepoint, which copies pages and costs more than the change itself; for
    /// frequent changes that are not expected to fail. If a change fails, the whole group is rolled back: the caller of
    /// the change gets the error, and the other callers get [`StoreError::Undone`].
    pub(in crate::store) async fn write_in_group<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&WriteTx) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        let then = move |stored| drop(sender.send(stored));
        self.write_then(change, then).await?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    /// Like [`Db::write_in_group`], but returns as soon as the change waits for the writer. `then` is called with the
    /// result even if the caller has stopped waiting, and is dropped if the store closes first. `then` must be short
    /// and must not wait, since the replies of the whole group run one after another.
    pub(in crate::store) async fn write_then<T, F>(
        &self,
        change: F,
        then: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&WriteTx) -> Result<T, StoreError> + Send + 'static,
    {
        let change: Change = Box::new(move |tx| {
            let result = change(tx);
            let failure = result.as_ref().err().cloned().map(StoreError::of_change);
            let reply: Reply = Box::new(move |commit| then(result_for_caller(result, commit)));
            Ran { reply, failure }
        });
        self.submit(change).await
    }

    /// Returns a receiver that is notified of every commit.
    pub(in crate::store) fn changes(&self) -> watch::Receiver<()> {
        self.commits.subscribe()
    }

    /// Checkpoints and truncates the log after a commit. The next commits are slower, since the log must grow again, so
    /// this function is only for the rare case that disk space is needed.
    pub(super) async fn cut_log(&self) -> Result<(), StoreError> {
        if let Backend::Threads { log, .. } = &self.backend {
            log.to_truncate.store(true, Ordering::Relaxed);
        }
        self.write_in_group(|_| Ok(())).await
    }

    /// Returns the sums of the messages of each queue.
    pub(in crate::store) fn queue_sums(&self) -> &QueueSums {
        &self.queue_sums
    }

    /// Reserves disk space for checkpoints again if enough is free. Returns whether the reserve is still released.
    pub(super) fn is_out_of_reserve(&self) -> bool {
        match &self.backend {
            Backend::Threads { log, .. } => {
                let is_released = log.reserve.is_released();
                is_released && !log.reserve.hold()
            }
            Backend::Inline(_) => false,
        }
    }

    /// Stops checkpoints while a reader holds one snapshot for a long time. Returns `None` for a store in memory, which
    /// has no log.
    pub(in crate::store) fn hold_log(&self) -> Option<LogHold> {
        match &self.backend {
            Backend::Threads { log, .. } => {
                log.is_held.store(true, Ordering::Relaxed);
                Some(LogHold(Arc::clone(log)))
            }
            Backend::Inline(_) => None,
        }
    }

    /// Waits until the last handle is dropped and the file is closed.
    pub(in crate::store) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let threads = match &self.backend {
            Backend::Threads { threads, .. } => Some(threads.clone()),
            Backend::Inline(_) => None,
        };
        async move {
            if let Some(threads) = threads {
                threads.wait().await;
            }
        }
    }

    /// Returns the size of the log in bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        match &self.backend {
            Backend::Threads { log, .. } => log.bytes(),
            Backend::Inline(_) => 0,
        }
    }

    /// Returns the longest change and commit since the last call; empty for a store in memory.
    pub(super) fn take_longest(&self) -> Longest {
        match &self.backend {
            Backend::Threads { write_times, .. } => write_times.take(),
            Backend::Inline(_) => Longest::default(),
        }
    }

    /// Returns how busy the threads are; empty for a store in memory.
    pub(super) fn engine_status(&self) -> EngineStatus {
        match &self.backend {
            Backend::Threads {
                changes,
                log,
                write_times,
                ..
            } => EngineStatus {
                readers: READERS,
                changes_waiting: changes.len(),
                changes_max: queue::WAITING_MAX,
                commit_times: write_times.commit_times(),
                checkpointed_at: log.written_back_at(),
            },
            Backend::Inline(_) => EngineStatus::default(),
        }
    }

    async fn submit(&self, change: Change) -> Result<(), StoreError> {
        match &self.backend {
            // Settlements wait for another program's lock; other changes fail at once.
            Backend::Threads { locked_out, .. }
                if self.lane != Lane::Settlement && locked_out.load(Ordering::Relaxed) =>
            {
                Err(StoreError::Locked)
            }
            Backend::Threads { changes, .. } => changes.send(self.lane, change).await,
            Backend::Inline(database) => {
                database.pause().await;
                let ended = {
                    let writer = database.writer_connection();
                    commit_group(&writer, Durability::Flushed, change, |_| None)
                };
                ended.tell();
                self.commits.send_replace(());
                database.pause().await;
                Ok(())
            }
        }
    }

    /// Runs `query` in one snapshot on a connection that cannot write.
    pub(in crate::store) async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        match &self.backend {
            Backend::Inline(database) => {
                database.pause().await;
                let result = query(database.writer_connection().connection());
                database.pause().await;
                result
            }
            Backend::Threads { queries, .. } => {
                let (sender, result) = oneshot::channel();
                let query: Query =
                    Box::new(move |reader| drop(sender.send(reader.run_query(query))));
                queries.send(query).await.map_err(|_| StoreError::Closed)?;
                result.await.map_err(|_| StoreError::Closed)?
            }
        }
    }

    /// Like [`Db::read`], for client requests about an entity. A queue, or a topic with all its subscriptions, uses at
    /// most one reader at a time. All entities together use at most half of the readers, in turn, so that the requests
    /// about one entity cannot block everybody.
    pub(in crate::store) async fn read_in_turn<T, F>(
        &self,
        of: Option<SubscriptionId>,
        query: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (
            Backend::Threads {
                changes,
                queries,
                entity_readers,
                ..
            },
            Some(of),
        ) = (&self.backend, of)
        else {
            return self.read(query).await;
        };
        let (sender, result) = oneshot::channel();
        let topic = changes.topics().topic_of(of);
        let own = topic.map_or(0, |topic| topic.0.rem_euclid(ENTITY_READERS as i64)) as usize;
        let (whose, group) = (Whose::Queue(of), Whose::queues_of(topic));
        let (places, queries) = (entity_readers[own].clone(), queries.clone());
        // Waits for the turn in a separate task, since the caller may be busy with something else when its turn comes,
        // while other requests wait.
        tokio::spawn(async move {
            let place = places.take_in(group, whose).await;
            let query: Query = Box::new(move |reader| {
                if !sender.is_closed() {
                    drop(sender.send(reader.run_query(query)));
                }
                drop(place);
            });
            drop(queries.send(query).await);
        });
        result.await.map_err(|_| StoreError::Closed)?
    }
}

impl WriterConnection {
    /// Wraps a connection with the current schema. Repeats of publish requests that were received
    /// `since` are recognized.
    pub(in crate::store) fn new(connection: Connection, since: Timestamp) -> Self {
        let writer_connection = Self {
            tx: WriteTx {
                connection,
                counts: RefCell::default(),
                before: RefCell::default(),
                marks: RefCell::default(),
                ids: Ids::default(),
                queue_sums: QueueSums::default(),
            },
            write_times: Arc::default(),
            locked_out: Arc::default(),
            durability: Cell::new(Durability::Flushed), // as in `PRAGMAS`
        };
        writer_connection.load(since);
        writer_connection
    }

    /// Loads the state that is kept in memory: the marks of publish requests and the queue sums.
    pub(super) fn load(&self, since: Timestamp) {
        self.tx.ids.forget();
        self.tx.marks().load(&self.tx, since);
        self.tx.queue_sums.load(&self.tx);
    }

    /// Sets the durability of the next commits. SQLite allows the change only between transactions.
    fn set_durability(&self, durability: Durability) -> Result<(), StoreError> {
        if self.durability.get() == durability {
            return Ok(());
        }
        self.tx.connection.execute_batch(match durability {
            // `NORMAL` skips only the flush of the log at a commit: checkpoints flush both files, and a log that starts
            // over has its header flushed.
            Durability::Written => "PRAGMA synchronous = NORMAL;",
            Durability::Flushed => "PRAGMA synchronous = FULL;",
        })?;
        self.durability.set(durability);
        Ok(())
    }

    pub(in crate::store) fn queue_sums(&self) -> &QueueSums {
        &self.tx.queue_sums
    }

    pub(in crate::store) fn connection(&self) -> &Connection {
        &self.tx
    }

    pub(in crate::store) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.tx.connection
    }
}

struct Writer {
    /// Channel without messages, which ends when the last reader has closed its connection.
    readers: blocking::Receiver<()>,
    writer_connection: WriterConnection,
    committed: watch::Sender<()>,
    log: Arc<WriteAheadLog>,
    checkpointer: Checkpointer,
    /// Is true if the connection has been told that the log is held.
    log_is_held: bool,
    answers: Answers,
    fatal_handler: Arc<FatalHandler>,
}

impl Writer {
    fn run(mut self, waiting: &queue::Receiver<Change>) {
        let _panics_too = ReportPanic(Arc::clone(&self.fatal_handler));
        while let Some((first, durability)) = waiting.wait() {
            let next = |settlements_first| waiting.next(settlements_first, durability);
            let group = commit_group(&self.writer_connection, durability, first, next);
            let failure = group.outcome.clone().err();
            self.answers.give(group);
            if let Some(error) = failure {
                self.fatal_handler.handle(&error);
                if error.is_fatal() {
                    return;
                }
                if error == StoreError::Full {
                    self.log.reserve.release();
                    self.cut_log();
                }
            }
            self.committed.send_replace(());
            self.bound_log();
        }
        // After the last handle is dropped, waits for the readers and then empties the log. The connection that closes
        // last removes the log, but if two connections close at the same time, neither does.
        self.checkpointer.end();
        let _ = self.readers.recv();
        self.cut_log();
    }

    /// Makes the log start over when it is too long. Under constant writes, checkpoints alone never do, and the log
    /// would grow.
    fn bound_log(&mut self) {
        let is_held = self.log.is_held.load(Ordering::Relaxed);
        if is_held != self.log_is_held {
            let pages = if is_held { 0 } else { LOG_PAGES_LAST_RESORT };
            let connection = self.writer_connection.connection();
            let set = connection.pragma_update(None, "wal_autocheckpoint", pages);
            self.log_is_held = is_held == set.is_ok(); // else the next commit tries again
        }
        if is_held {
            return;
        }
        self.checkpointer.committed();
        if self.log.to_truncate.swap(false, Ordering::Relaxed) {
            self.cut_log();
        } else if self.checkpointer.copied() > LOG_PAGES_MAX {
            // Only pages committed since the last checkpoint remain to be copied. A reader that blocks the restart is
            // not waited for: the next checkpoint tries again.
            let connection = self.writer_connection.connection();
            let _ = connection.busy_timeout(Duration::ZERO);
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(RESTART);");
            let _ = connection.busy_timeout(LOCK_TOLD_AFTER);
        }
    }

    fn cut_log(&self) {
        let _paused = self.checkpointer.pause();
        let connection = self.writer_connection.connection();
        // A reader can make the checkpoint "busy", which is no error.
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);");
    }
}

/// Runs and commits a group of changes. The returned replies still have to be sent to the callers.
fn commit_group(
    writer: &WriterConnection,
    durability: Durability,
    first: Change,
    next: impl FnMut(bool) -> Option<Change>,
) -> EndedGroup {
    let mut replies = Vec::new();
    let outcome = writer
        .set_durability(durability)
        .and_then(|()| run_group(writer, first, next, &mut replies))
        .map_err(StoreError::of_change);
    EndedGroup { replies, outcome }
}

fn run_group(
    writer: &WriterConnection,
    first: Change,
    mut next: impl FnMut(bool) -> Option<Change>,
    replies: &mut Vec<Reply>,
) -> Result<(), StoreError> {
    let WriterConnection {
        tx, write_times, ..
    } = writer;
    tx.counts.take(); // of a group that was undone
    tx.marks().undo(0);
    let group = begin(writer)?;
    let (begun, rows_before) = (Stopwatch::begin(), tx.total_changes());
    let mut change = Some(first);
    while let Some(run) = change.take() {
        let stopwatch = Stopwatch::begin();
        let Ran { reply, failure } = run(tx);
        write_times.changed(stopwatch.took());
        replies.push(reply);
        if let Some(cause) = failure {
            return Err(undone(cause)); // dropped means rolled back
        }
        // SQLite has rolled back the group by itself, so no change of the group may be reported as done.
        if tx.is_autocommit() {
            return Err(StoreError::Undone("SQLite rolled it back".to_owned()));
        }
        let rows = tx.total_changes() - rows_before;
        if rows < GROUP_ROWS_MAX && begun.took() < GROUP_TIME_MAX {
            let settlements_first = rows < GROUP_ROWS_MAX / 2;
            change = next(settlements_first);
        }
    }
    let stopwatch = Stopwatch::begin();
    let counts = tx.counts.take();
    counts.write(tx)?;
    tx.marks().write(tx)?;
    group.commit()?;
    tx.queue_sums.add(&counts);
    write_times.committed(stopwatch.took());
    Ok(())
}

/// Begins a group. While another program holds the lock on the file, the group waits for the lock, since deliveries
/// recorded in the group may already have been made.
fn begin(writer: &WriterConnection) -> Result<Transaction<'_>, StoreError> {
    loop {
        let begun = Transaction::new_unchecked(&writer.tx, TransactionBehavior::Immediate)
            .map_err(StoreError::from);
        let is_locked_out = matches!(begun, Err(StoreError::Locked));
        let was_locked_out = writer.locked_out.swap(is_locked_out, Ordering::Relaxed);
        match (was_locked_out, is_locked_out) {
            (_, false) => return begun,
            (true, true) => {}
            (false, true) => tracing::error!(
                "another program holds a lock on the database; nothing is stored until it is gone"
            ),
        }
    }
}

/// Returns the error for the other callers of a group after one change failed: the cause itself if the callers can act
/// on it, otherwise [`StoreError::Undone`].
fn undone(cause: StoreError) -> StoreError {
    match cause {
        StoreError::Other(reason) | StoreError::Unreadable(reason) => StoreError::Undone(reason),
        StoreError::Full
        | StoreError::Locked
        | StoreError::Closed
        | StoreError::TooSlow
        | StoreError::Undone(_)
        | StoreError::MasterKey(_)
        | StoreError::Provisioned { .. }
        | StoreError::Damaged(_)
        | StoreError::Failed(_) => cause,
    }
}

/// Returns the result for the caller. The error of the caller's change precedes the error of the group, which may be a
/// consequence of it.
fn result_for_caller<T, E: From<StoreError>>(
    result: Result<T, E>,
    commit: Result<(), StoreError>,
) -> Result<T, E> {
    let value = result?;
    commit?;
    Ok(value)
}

fn undo_alone<T, E: ChangeError>(
    tx: &WriteTx,
    change: impl FnOnce(&WriteTx) -> Result<T, E>,
) -> Result<T, E> {
    let marks = tx.marks().unwritten();
    tx.before.swap(&tx.counts);
    let result = in_savepoint(tx, change);
    let counted = tx.counts.replace(tx.before.take());
    if result.is_ok() {
        tx.counts().add(counted);
    } else {
        tx.marks().undo(marks);
    }
    result
}

fn in_savepoint<T, E: ChangeError>(
    tx: &WriteTx,
    change: impl FnOnce(&WriteTx) -> Result<T, E>,
) -> Result<T, E> {
    let run = |sql| tx.run(sql, []).map_err(StoreError::from);
    run("SAVEPOINT change")?;
    let result = change(tx);
    if result.is_err() && !tx.is_autocommit() {
        run("ROLLBACK TO change")?;
    }
    if !tx.is_autocommit() {
        run("RELEASE change")?;
    }
    result
}

impl ReadConnection {
    fn open(
        path: &Path,
        clock: &Clock,
        fatal_handler: Arc<FatalHandler>,
    ) -> Result<Self, StoreError> {
        let mut connection = open_reader(path)?;
        let deadline = Arc::new(AtomicI64::new(i64::MAX));
        let (ends_at, watch) = (Arc::clone(&deadline), clock.clone());
        let is_late = move || watch.now().as_ms() > ends_at.load(Ordering::Relaxed);
        connection.progress_handler(PROGRESS_STEPS, Some(is_late))?;
        Ok(Self {
            connection,
            fatal_handler,
            deadline,
            clock: clock.clone(),
        })
    }

    fn run(mut self, waiting: &Mutex<mpsc::Receiver<Query>>) {
        loop {
            let next = waiting.lock().unwrap().blocking_recv();
            let Some(query) = next else { return };
            query(&mut self);
        }
    }

    fn run_query<T>(
        &mut self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let ends_at = self.clock.now() + READ_DEADLINE;
        self.deadline.store(ends_at.as_ms(), Ordering::Relaxed);
        let snapshot = self.connection.transaction();
        let result = snapshot
            .map_err(StoreError::from)
            .and_then(|snapshot| query(&snapshot));
        result.inspect_err(|error| self.fatal_handler.handle(error))
    }
}

/// Opens a read-only connection whose statements are interrupted after `ends_at`.
pub(super) fn open_watched(
    path: &Path,
    clock: Clock,
    ends_at: Timestamp,
) -> Result<Connection, StoreError> {
    let mut connection = open_reader(path)?;
    let is_late = move || clock.now() > ends_at;
    connection.progress_handler(PROGRESS_STEPS, Some(is_late))?;
    Ok(connection)
}

/// Opens a connection that only reads. The database must exist.
pub(in crate::store) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0;")?;
    Ok(connection)
}

/// Opens a connection that changes neither the database file nor its log. The database must exist.
pub(in crate::store) fn open_unchanged(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    Ok(connection)
}

/// Opens the connection that writes, creating the file if it is missing.
pub(in crate::store) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    let pages: u64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    // Sets page size and vacuum mode only before the first table is created. Setting them later would make SQLite write
    // a page, for which a full disk has no room.
    if pages == 0 {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        // Deleted pages go back to the file system in small batches.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    configure(&connection)?;
    Ok(connection)
}

/// Opens a database in memory with the same settings, for [`InlineDatabase`].
pub(in crate::store) fn open_in_memory() -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory()?;
    configure(&connection)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(PRAGMAS)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Without this option, a statement that could use a partial index is compiled again whenever a value is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    checksum::add_function(connection)?;
    add_functions(connection)
}

/// Returns the path of the write-ahead log of a database file.
pub(in crate::store) fn log_of(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

#[cfg(test)]
#[path = "db_tests.rs"]
mod tests;
