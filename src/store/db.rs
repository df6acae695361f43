//! One writer, many readers.
//!
//! Every change runs on one thread, in the order of arrival. Changes that wait together share one
//! commit, hence one fsync, and nobody hears "done" before it. A change that fails undoes itself alone.
//! Readers each see one snapshot and never wait for the writer.
//!
//! An error after which the file cannot be written or trusted ends the process, wherever it shows: in a
//! change, in a commit or in a read (see [`Alarm`]). Nobody above has to look for it.
//!
//! A change does no I/O of its own and no hashing of payloads: it is prepared outside and only written
//! inside, because everybody behind it waits.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Savepoint, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use crate::base::{Clock, Lap, Timestamp};
use crate::store::counters::Counters;
use crate::store::error::{ChangeError, StoreError};
use crate::store::event_filter::add_functions;
use crate::store::inline::InlineDatabase;
use crate::store::upkeep::Machinery;
use crate::store::write_times::{Longest, WriteTimes};

/// Changes in one commit: bounds how long the first one waits for the others.
const GROUP_MAX: usize = 512;

/// Changes that may wait for the writer; past it `write` waits, which is the only back pressure.
const WRITE_QUEUE_MAX: usize = 4_096;

/// Threads that read: enough for the dispatcher and a few pages at once on a small machine.
const READERS: usize = 4;

/// Reads that may wait for a reader.
const READ_QUEUE_MAX: usize = 1_024;

/// How long one read may take; then it is interrupted, since an old snapshot keeps the write-ahead log
/// from starting over.
const READ_DEADLINE: Duration = Duration::from_secs(1);

/// Virtual-machine steps between two looks at the deadline.
const PROGRESS_STEPS: i32 = 20_000;

/// Size of the write-ahead log past which the writer forces a checkpoint that lets it start over.
const WAL_RESTART_BYTES: u64 = 32 * 1_024 * 1_024;

/// Commits between two looks at the size of the write-ahead log.
const COMMITS_PER_WAL_LOOK: u32 = 64;

/// Rows of 1 KiB cost a quarter less CPU and a fifth less disk on pages of this size than on 4 KiB.
const PAGE_BYTES: u32 = 16_384;

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

/// Statements kept prepared per connection: more than there are.
const STATEMENTS_CACHED: usize = 128;

type Change = Box<dyn FnOnce(&mut Group<'_>) -> Ran + Send>;
type AttemptResult = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Query = Box<dyn FnOnce(&mut Reader) + Send>;

/// A change that has run: how to tell its caller once the commit's outcome is known, and whether it left
/// the group in a state that must not be committed.
struct Ran {
    answer: AttemptResult,
    ruined: Option<StoreError>,
}

/// Told once, when the database can no longer be trusted or written: the process must end.
pub type OnFatal = Box<dyn Fn(&StoreError) + Send + Sync>;

/// Rings once, at the first error after which the file cannot be written or trusted any more.
struct Alarm {
    on_fatal: OnFatal,
    has_rung: AtomicBool,
}

impl Alarm {
    fn new(on_fatal: OnFatal) -> Self {
        Self {
            on_fatal,
            has_rung: AtomicBool::new(false),
        }
    }

    fn hear(&self, error: &StoreError) {
        if error.is_fatal() && !self.has_rung.swap(true, Ordering::Relaxed) {
            (self.on_fatal)(error);
        }
    }
}

/// A handle on the database. Cheap to clone; the threads end when the last one is gone.
#[derive(Clone)]
pub(super) struct Db {
    backend: Backend,
    /// Told of every commit.
    changes: watch::Sender<()>,
}

#[derive(Clone)]
enum Backend {
    Threads {
        changes: mpsc::Sender<Change>,
        queries: mpsc::Sender<Query>,
        log: Arc<Log>,
        write_times: Arc<WriteTimes>,
    },
    /// On the caller's thread, so that a simulation stays deterministic.
    Inline(InlineDatabase),
}

/// The connection that writes, and what counts its changes.
pub(super) struct WriterConnection {
    connection: Connection,
    counters: Counters,
    write_times: Arc<WriteTimes>,
}

/// Changes on their way to a common commit.
struct Group<'a> {
    transaction: Transaction<'a>,
    counters: &'a Counters,
}

/// The write-ahead log.
struct Log {
    path: PathBuf,
    /// The file that it is written back to.
    of: PathBuf,
    /// It is to be cut off after the next commit.
    to_cut: AtomicBool,
}

impl Log {
    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// By the system: every other change goes to the log.
    fn written_back_at(&self) -> Option<Timestamp> {
        let written_at = std::fs::metadata(&self.of).ok()?.modified().ok()?;
        Some(Timestamp::from_system(written_at))
    }
}

struct Reader {
    connection: Connection,
    alarm: Arc<Alarm>,
    /// When the present query must be over, by `clock`.
    deadline: Arc<AtomicI64>,
    clock: Clock,
}

impl Db {
    /// Opens the writer and the readers on the file `path`, which must have been migrated.
    pub(super) fn open(path: &Path, clock: &Clock, on_fatal: OnFatal) -> Result<Self, StoreError> {
        let alarm = Arc::new(Alarm::new(on_fatal));
        let (changes, waiting) = mpsc::channel(WRITE_QUEUE_MAX);
        let told = watch::Sender::new(());
        let log = Arc::new(Log {
            path: wal_of(path),
            of: path.to_owned(),
            to_cut: AtomicBool::new(false),
        });
        let writer_connection = WriterConnection::open(open_writer(path)?)?;
        let write_times = Arc::clone(&writer_connection.write_times);
        let writer = Writer {
            changes: told.clone(),
            writer_connection,
            log: Arc::clone(&log),
            commits: 0,
            alarm: Arc::clone(&alarm),
        };
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(waiting))
            .map_err(|cause| StoreError::Other(format!("cannot start the writer: {cause}")))?;
        let (queries, waiting) = mpsc::channel(READ_QUEUE_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..READERS {
            let reader = Reader::open(path, clock, Arc::clone(&alarm))?;
            let waiting = Arc::clone(&waiting);
            thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || reader.run(&waiting))
                .map_err(|cause| StoreError::Other(format!("cannot start a reader: {cause}")))?;
        }
        Ok(Self {
            backend: Backend::Threads {
                changes,
                queries,
                log,
                write_times,
            },
            changes: told,
        })
    }

    /// Runs everything on the caller's thread.
    pub(super) fn inline(database: InlineDatabase) -> Self {
        Self {
            backend: Backend::Inline(database),
            changes: watch::Sender::new(()),
        }
    }

    /// Runs `change` inside the next group and returns once that group is on disk.
    ///
    /// Once sent, a change is carried out even if the caller goes away. [`StoreError::Closed`] after a
    /// change was sent means "unknown", not "failed".
    pub(super) async fn write<T, E, F>(&self, change: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: ChangeError,
        F: FnOnce(&Savepoint<'_>) -> Result<T, E> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        self.submit(Box::new(move |group| {
            let result = undo_alone(group, change);
            // A failure of the file concerns everybody, and so does one that made SQLite roll the whole
            // group back, such as a full disk; any other one has been undone.
            let failed = result.as_ref().err().and_then(E::store_error);
            let concerns_all =
                |error: &&StoreError| error.is_fatal() || group.transaction.is_autocommit();
            let ruined = failed.filter(concerns_all).cloned();
            let answer: AttemptResult =
                Box::new(move |commit| drop(tell.send(told_to_caller(result, commit))));
            Ran { answer, ruined }
        }))
        .await?;
        told.await.map_err(|_| StoreError::Closed)?
    }

    /// The same for the hot path, for a change that refuses nothing: it goes without the savepoint,
    /// whose copies of pages cost more than the change itself. Should it fail nevertheless, the whole
    /// group is undone; it hears its own error, and everybody else in it [`StoreError::Undone`].
    pub(super) async fn write_in_group<T, F>(&self, change: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        self.submit(Box::new(move |group| {
            let result = change(&group.transaction);
            let ruined = result.as_ref().err().cloned();
            let answer: AttemptResult =
                Box::new(move |commit| drop(tell.send(told_to_caller(result, commit))));
            Ran { answer, ruined }
        }))
        .await?;
        told.await.map_err(|_| StoreError::Closed)?
    }

    /// Tells whenever a group has been committed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Writes the log back to the file and cuts it off, after a commit. It costs the next commits, which
    /// must make the log grow again, so it is for the rare moment when the disk is to have room.
    pub(super) async fn cut_log(&self) -> Result<(), StoreError> {
        if let Backend::Threads { log, .. } = &self.backend {
            log.to_cut.store(true, Ordering::Relaxed);
        }
        self.write_in_group(|_| Ok(())).await
    }

    /// Bytes of the log.
    pub(super) fn log_bytes(&self) -> u64 {
        match &self.backend {
            Backend::Threads { log, .. } => log.bytes(),
            Backend::Inline(_) => 0,
        }
    }

    /// What kept the writer longest since this was asked last; a store in memory does not tell.
    pub(super) fn take_longest(&self) -> Longest {
        match &self.backend {
            Backend::Threads { write_times, .. } => write_times.take(),
            Backend::Inline(_) => Longest::default(),
        }
    }

    /// Threads that read, and changes that wait for the one that writes; none where there are no threads.
    pub(super) fn machinery(&self) -> Machinery {
        match &self.backend {
            Backend::Threads {
                changes,
                log,
                write_times,
                ..
            } => Machinery {
                readers: READERS,
                changes_waiting: changes.max_capacity() - changes.capacity(),
                changes_max: changes.max_capacity(),
                commit_times: write_times.commit_times(),
                checkpointed_at: log.written_back_at(),
            },
            Backend::Inline(_) => Machinery::default(),
        }
    }

    async fn submit(&self, change: Change) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Threads { changes, .. } => {
                changes.send(change).await.map_err(|_| StoreError::Closed)
            }
            Backend::Inline(database) => {
                database.pause().await;
                // The answers carry the outcome of the commit, so there is nothing else to report.
                let _ = commit_group(&mut database.writer_connection(), change, || None);
                self.changes.send_replace(());
                database.pause().await;
                Ok(())
            }
        }
    }

    /// Runs `query` in one snapshot on a connection that cannot write.
    pub(super) async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        match &self.backend {
            Backend::Inline(database) => {
                database.pause().await;
                let answer = query(database.writer_connection().connection());
                database.pause().await;
                answer
            }
            Backend::Threads { queries, .. } => {
                let (tell, told) = oneshot::channel();
                let query: Query = Box::new(move |reader| drop(tell.send(reader.answer(query))));
                queries.send(query).await.map_err(|_| StoreError::Closed)?;
                told.await.map_err(|_| StoreError::Closed)?
            }
        }
    }
}

impl WriterConnection {
    /// Over a connection whose schema is the newest.
    pub(super) fn open(connection: Connection) -> Result<Self, StoreError> {
        let counters = Counters::watch(&connection)?;
        Ok(Self {
            connection,
            counters,
            write_times: Arc::default(),
        })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }
}

struct Writer {
    writer_connection: WriterConnection,
    changes: watch::Sender<()>,
    log: Arc<Log>,
    commits: u32,
    alarm: Arc<Alarm>,
}

impl Writer {
    fn run(mut self, mut waiting: mpsc::Receiver<Change>) {
        let _panics_too = TellPanic(Arc::clone(&self.alarm));
        while let Some(first) = waiting.blocking_recv() {
            let commit = commit_group(&mut self.writer_connection, first, || {
                waiting.try_recv().ok()
            });
            if let Err(error) = commit {
                self.alarm.hear(&error);
                if error.is_fatal() {
                    return;
                }
            }
            self.changes.send_replace(());
            self.bound_log();
        }
        // Nobody holds a handle any more: leave a file without a log behind.
        let _ = self
            .writer_connection
            .connection
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE);");
    }

    /// Under constant writing SQLite's own checkpoints never let the log start over, so it would grow.
    fn bound_log(&mut self) {
        self.commits += 1;
        let checkpoint = if self.log.to_cut.swap(false, Ordering::Relaxed) {
            "PRAGMA wal_checkpoint(TRUNCATE);"
        } else if self.commits.is_multiple_of(COMMITS_PER_WAL_LOOK)
            && self.log.bytes() > WAL_RESTART_BYTES
        {
            "PRAGMA wal_checkpoint(RESTART);"
        } else {
            return;
        };
        // A reader in the way makes it "busy", not an error; the next look tries again.
        let _ = self.writer_connection.connection.execute_batch(checkpoint);
    }
}

/// A panic inside a change ends the writer's thread, and with it the process's use.
struct TellPanic(Arc<Alarm>);

impl Drop for TellPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.hear(&StoreError::Failed(
                "a change of the database panicked".to_owned(),
            ));
        }
    }
}

fn commit_group(
    writer: &mut WriterConnection,
    first: Change,
    next: impl FnMut() -> Option<Change>,
) -> Result<(), StoreError> {
    let mut answers = Vec::new();
    let commit = run_group(writer, first, next, &mut answers);
    for answer in answers {
        answer(commit.clone());
    }
    commit
}

fn run_group(
    writer: &mut WriterConnection,
    first: Change,
    mut next: impl FnMut() -> Option<Change>,
    answers: &mut Vec<AttemptResult>,
) -> Result<(), StoreError> {
    let WriterConnection {
        connection,
        counters,
        write_times,
    } = writer;
    counters.take_counts(); // of a group that was undone
    let mut group = Group {
        transaction: connection.transaction_with_behavior(TransactionBehavior::Immediate)?,
        counters,
    };
    let mut change = Some(first);
    while let Some(run) = change.take() {
        let lap = Lap::begin();
        let Ran { answer, ruined } = run(&mut group);
        write_times.changed(lap.took());
        answers.push(answer);
        if let Some(cause) = ruined {
            return Err(undone(cause)); // dropped means rolled back
        }
        // What SQLite has rolled back by itself must not be told to be done, whatever the cause.
        if group.transaction.is_autocommit() {
            return Err(StoreError::Undone("SQLite rolled it back".to_owned()));
        }
        if answers.len() < GROUP_MAX {
            change = next();
        }
    }
    let lap = Lap::begin();
    counters.write(&group.transaction)?;
    group.transaction.commit()?;
    write_times.committed(lap.took());
    Ok(())
}

/// What a group is told after one of its changes failed: the cause, where others can do something about
/// it, else that nothing was stored.
fn undone(cause: StoreError) -> StoreError {
    match cause {
        StoreError::Other(why) | StoreError::Unreadable(why) => StoreError::Undone(why),
        StoreError::Full
        | StoreError::Closed
        | StoreError::TooSlow
        | StoreError::Undone(_)
        | StoreError::MasterKey(_)
        | StoreError::Failed(_) => cause,
    }
}

/// What the caller of a change hears: its own error before that of the group, which may follow from it.
fn told_to_caller<T, E: From<StoreError>>(
    result: Result<T, E>,
    commit: Result<(), StoreError>,
) -> Result<T, E> {
    let value = result?;
    commit?;
    Ok(value)
}

fn undo_alone<T, E: ChangeError>(
    group: &mut Group<'_>,
    change: impl FnOnce(&Savepoint<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let before = group.counters.take_counts();
    let result = in_savepoint(&mut group.transaction, change);
    match result {
        Ok(_) => group.counters.join(before),
        Err(_) => group.counters.restore_counts(before),
    }
    result
}

fn in_savepoint<T, E: ChangeError>(
    transaction: &mut Transaction<'_>,
    change: impl FnOnce(&Savepoint<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let savepoint = transaction.savepoint().map_err(StoreError::from)?; // dropped means rolled back
    let value = change(&savepoint)?;
    savepoint.commit().map_err(StoreError::from)?;
    Ok(value)
}

impl Reader {
    fn open(path: &Path, clock: &Clock, alarm: Arc<Alarm>) -> Result<Self, StoreError> {
        let mut connection = open_reader(path)?;
        let deadline = Arc::new(AtomicI64::new(i64::MAX));
        let (ends_at, watch) = (Arc::clone(&deadline), clock.clone());
        let is_late = move || watch.now().as_ms() > ends_at.load(Ordering::Relaxed);
        connection.progress_handler(PROGRESS_STEPS, Some(is_late))?;
        Ok(Self {
            connection,
            alarm,
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

    fn answer<T>(
        &mut self,
        query: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let ends_at = self.clock.now() + READ_DEADLINE;
        self.deadline.store(ends_at.as_ms(), Ordering::Relaxed);
        let snapshot = self.connection.transaction();
        let result = snapshot
            .map_err(StoreError::from)
            .and_then(|snapshot| query(&snapshot));
        result.inspect_err(|error| self.alarm.hear(error))
    }
}

/// Opens a connection that cannot write, and whose statements are interrupted once `ends_at` has passed.
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

fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0;")?;
    Ok(connection)
}

/// Opens the connection that writes, making the file if there is none.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // Deleted pages go back to the file system in small bites; it must be set before the first table.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    configure(&connection)?;
    Ok(connection)
}

/// A database in memory with the same settings, for [`InlineDatabase`].
pub(super) fn open_in_memory() -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory()?;
    configure(&connection)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch(PRAGMAS)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Otherwise a statement that could use a partial index is compiled anew whenever a value is bound to it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    add_functions(connection)
}

fn wal_of(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

#[cfg(test)]
#[path = "db_tests.rs"]
mod tests;
