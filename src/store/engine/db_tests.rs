use std::collections::HashSet;

use futures_util::future::join_all;
use futures_util::poll;

use super::*;
use crate::store::engine::migrate::migrate;
use crate::store::engine::queue_topics::catalog;

fn threaded() -> (tempfile::TempDir, Db) {
    with_clock(&Clock::system())
}

fn with_clock(clock: &Clock) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("test.db");
    let mut writer = open_writer(&path).expect("a new database");
    migrate(&mut writer).expect("the schema");
    writer
        .execute_batch("CREATE TABLE t (n INTEGER UNIQUE) STRICT;")
        .expect("a table");
    drop(writer);
    let db = Db::open(&path, clock, Box::new(|_| ())).expect("an open database");
    (dir, db)
}

/// A change that waited is stored once the lock is gone, and new ones hear of the lock meanwhile.
#[tokio::test]
async fn the_lock_of_another_program_is_waited_for_and_told() {
    let (dir, db) = threaded();
    let other = Connection::open(dir.path().join("test.db")).expect("another connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("its lock");
    let waiting = {
        let db = db.clone();
        let insert = |tx: &WriteTx| Ok(tx.run("INSERT INTO t VALUES (1)", [])?);
        tokio::spawn(async move { db.write_in_group(insert).await })
    };
    let nothing = || db.write_in_group(|_| Ok(()));
    // Once the writer has met the lock, which takes it a moment.
    let told = loop {
        if let Ok(told) = tokio::time::timeout(Duration::from_millis(50), nothing()).await {
            break told;
        }
    };
    assert_eq!(told, Err(StoreError::Locked));
    other.execute_batch("ROLLBACK").expect("its end");
    assert_eq!(waiting.await.expect("no panic"), Ok(1));
    assert_eq!(nothing().await, Ok(()));
}

/// Inserts a row as a lock is written, and returns SQLite's level of `synchronous` meanwhile.
async fn insert_as_lock(db: &Db, n: i64) -> i64 {
    let change = move |tx: &WriteTx| {
        tx.run("INSERT INTO t VALUES (?1)", [n])?;
        let level = tx.query_row("PRAGMA synchronous", [], |row| row.get(0));
        Ok::<i64, StoreError>(level?)
    };
    let level = db.in_lane(Lane::Lock(Whose::AnyQueue)).write(change).await;
    level.expect("a lock")
}

#[tokio::test]
async fn locks_alone_are_written_without_a_flush() {
    const NORMAL: i64 = 1;
    const FULL: i64 = 2;
    let (_dir, db) = threaded();
    assert_eq!(insert_as_lock(&db, 1).await, NORMAL);
    let level = db.write(|tx| {
        let level = tx.query_row("PRAGMA synchronous", [], |row| row.get(0));
        Ok::<i64, StoreError>(level?)
    });
    assert_eq!(level.await, Ok(FULL));
    assert_eq!(insert_as_lock(&db, 2).await, NORMAL);
    assert_eq!(rows(&db).await, [1, 2]);
}

/// A power loss leaves the log at least up to the last flush, with any sectors behind it.
#[tokio::test]
async fn a_power_loss_forgets_at_most_locks() {
    const SECTOR: usize = 4_096;
    let (dir, db) = threaded();
    let file = dir.path().join("test.db");
    insert(&db, 1).await.expect("room");
    let flushed = db.log_bytes() as usize;
    insert_as_lock(&db, 2).await;
    insert_as_lock(&db, 3).await;
    let log = std::fs::read(log_of(&file)).expect("a log");
    assert!(log.len() > flushed + 2 * SECTOR, "locks are in the log");
    let image = tempfile::tempdir().expect("a folder");
    let copy = image.path().join("test.db");
    let mut seen = HashSet::new();
    for sector in (flushed..log.len()).step_by(SECTOR) {
        let end = log.len().min(sector + SECTOR);
        let mut one_lost = log.clone();
        one_lost[sector..end].fill(0);
        for left in [&log[..sector], &one_lost] {
            drop(std::fs::remove_file(image.path().join("test.db-shm")));
            std::fs::copy(&file, &copy).expect("a copy");
            std::fs::write(log_of(&copy), left).expect("a copy");
            let reader = open_reader(&copy).expect("a database");
            let found = reader.all("SELECT n FROM t ORDER BY n", [], |row| Ok(row.get(0)?));
            let found: Vec<i64> = found.expect("rows");
            assert!(
                [&[1][..], &[1, 2], &[1, 2, 3]].contains(&&found[..]),
                "{sector}: {found:?}"
            );
            seen.insert(found.len());
        }
    }
    assert!(seen.contains(&1) && seen.contains(&2), "{seen:?}");
}

#[tokio::test]
async fn the_writer_leaves_a_log_alone_that_is_held() {
    let (_dir, db) = threaded();
    let pages = async || {
        // The first commit after a change is what notices it.
        db.write_in_group(|_| Ok(())).await.expect("a commit");
        let pages = db.write_in_group(|tx| {
            let pages = tx.query_row("PRAGMA wal_autocheckpoint", [], |row| row.get::<_, u32>(0));
            Ok(pages?)
        });
        pages.await.expect("a number")
    };
    assert_eq!(pages().await, LOG_PAGES_LAST_RESORT);
    let hold = db.hold_log();
    assert_eq!(pages().await, 0);
    drop(hold);
    assert_eq!(pages().await, LOG_PAGES_LAST_RESORT);
}

/// The changes of one queue wait behind each other, and those of another one do not.
#[tokio::test]
async fn whoever_asks_for_much_does_not_hold_up_another() {
    let (_dir, db) = threaded();
    let (begin, begun) = blocking::channel::<()>();
    let until_all_wait = move |_: &WriteTx| {
        begun.recv().expect("a beginning");
        Ok(())
    };
    db.write_then(until_all_wait, drop).await.expect("room");
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = |name: char| {
        let order = Arc::clone(&order);
        move |_: &WriteTx| {
            order.lock().unwrap().push(name);
            Ok::<_, StoreError>(())
        }
    };
    let [busy, quiet] = [1, 2].map(|id| db.of(Whose::Queue(SubscriptionId(id))));
    for _ in 0..1_000 {
        busy.write_then(noted('b'), drop).await.expect("room");
    }
    let (sender, written) = oneshot::channel();
    let then = move |stored| drop(sender.send(stored));
    quiet.write_then(noted('q'), then).await.expect("room");
    begin.send(()).expect("the writer waits");
    assert_eq!(written.await.expect("an answer"), Ok(()));
    assert_eq!(order.lock().unwrap()[..2], ['b', 'q']);
}

/// A database that was damaged while it was closed, and the errors that its fatal handler gets.
fn damaged() -> (tempfile::TempDir, Db, std::sync::mpsc::Receiver<StoreError>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("test.db");
    let mut writer = open_writer(&path).expect("a new database");
    migrate(&mut writer).expect("the schema");
    writer
        .execute_batch(
            "CREATE TABLE t (n INTEGER UNIQUE) STRICT; CREATE TABLE rotten (n TEXT) STRICT;
             INSERT INTO rotten VALUES ('x'); PRAGMA wal_checkpoint(TRUNCATE);",
        )
        .expect("tables");
    let root: u32 = writer
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'rotten'",
            [],
            |r| r.get(0),
        )
        .expect("its page");
    drop(writer);
    let mut bytes = std::fs::read(&path).expect("the file");
    let start = (root as usize - 1) * PAGE_BYTES as usize;
    bytes[start..start + 64].fill(0xff);
    std::fs::write(&path, bytes).expect("the damage");
    let (sender, received) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let fatal_handler =
        Box::new(move |error: &StoreError| drop(sender.lock().unwrap().send(error.clone())));
    let db = Db::open(&path, &Clock::system(), fatal_handler).expect("an open database");
    (dir, db, received)
}

async fn insert(db: &Db, n: i64) -> Result<(), StoreError> {
    db.write(move |tx| {
        tx.execute("INSERT INTO t VALUES (?1)", [n])?;
        Ok(())
    })
    .await
}

async fn rows(db: &Db) -> Vec<i64> {
    db.read(|tx| {
        let mut all = tx.prepare("SELECT n FROM t ORDER BY n")?;
        let rows = all
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(rows)
    })
    .await
    .expect("a read")
}

#[tokio::test]
async fn a_change_that_fails_undoes_itself_alone() {
    let (_dir, db) = threaded();
    let other = db.clone();
    let (first, twice, third) = tokio::join!(
        insert(&db, 1),
        other.write(|tx| {
            tx.execute("INSERT INTO t VALUES (2)", [])?;
            tx.execute("INSERT INTO t VALUES (2)", [])?;
            Ok::<_, StoreError>(())
        }),
        insert(&db, 3),
    );
    assert!(first.is_ok() && third.is_ok());
    assert!(matches!(twice, Err(StoreError::Other(_))));
    assert_eq!(rows(&db).await, [1, 3]);
}

/// Some errors roll back the whole transaction, not the statement. Then every change of the group has failed.
#[test]
fn a_group_that_sqlite_rolls_back_fails_as_a_whole() {
    let mut connection = open_in_memory().expect("a database");
    migrate(&mut connection).expect("the schema");
    let writer = WriterConnection::new(connection, Timestamp::from_ms(0));
    writer
        .connection()
        .execute_batch("CREATE TABLE t (n INTEGER UNIQUE) STRICT;")
        .expect("a table");
    let received = Arc::new(Mutex::new(Vec::new()));
    let change = |sql: &'static str| -> Change {
        let received = Arc::clone(&received);
        Box::new(move |group| {
            let result = undo_alone(group, |tx| Ok::<_, StoreError>(tx.execute_batch(sql)?));
            let reply: Reply = Box::new(move |commit| {
                received
                    .lock()
                    .unwrap()
                    .push(result_for_caller(result, commit));
            });
            Ran {
                reply,
                failure: None,
            }
        })
    };
    let mut following = vec![
        change("INSERT INTO t VALUES (3)"),
        change("INSERT INTO t VALUES (2); INSERT OR ROLLBACK INTO t VALUES (2)"),
    ];
    let first = change("INSERT INTO t VALUES (1)");
    let group = commit_group(&writer, Durability::Flushed, first, |_| following.pop());
    assert!(group.outcome.is_err());
    group.tell();
    let received = std::mem::take(&mut *received.lock().unwrap());
    let [Err(StoreError::Undone(_)), Err(StoreError::Other(own))] = &received[..] else {
        panic!("{received:?}");
    };
    assert!(own.contains("UNIQUE"), "{own}");
    let left: i64 = writer
        .connection()
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(
        left, 0,
        "nothing that was reported as failed may be on disk"
    );
    assert_eq!(
        following.len(),
        1,
        "the third change was not drawn into the ruined group"
    );
}

#[tokio::test]
async fn a_full_disk_is_told_apart_and_loses_nothing() {
    let (_dir, db) = threaded();
    insert(&db, 1).await.expect("room");
    let limit = |pages: &'static str| {
        db.write(move |tx| {
            let _: i64 = tx.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |r| {
                r.get(0)
            })?;
            Ok::<_, StoreError>(())
        })
    };
    limit("1").await.expect("a limit");
    let big = db
        .write(|tx| {
            tx.execute_batch(
                "CREATE TABLE big (x BLOB); INSERT INTO big VALUES (zeroblob(1000000));",
            )?;
            Ok::<_, StoreError>(())
        })
        .await;
    assert_eq!(big, Err(StoreError::Full));
    limit("1000000").await.expect("room again");
    insert(&db, 2).await.expect("room again");
    assert_eq!(rows(&db).await, [1, 2]);
}

/// A full disk can undo more than the statement that met it.
#[tokio::test]
async fn a_full_disk_that_rolls_back_the_group_is_told_by_its_name() {
    let database = InlineDatabase::new().expect("a database");
    let db = Db::inline(database.clone());
    let write = || {
        db.write(|tx| {
            let text = "x".repeat(100_000);
            let insert = "INSERT INTO session (id, record, started_at, used_at, expires_at) VALUES ('a', ?1, 0, 0, 0)";
            Ok::<_, StoreError>(tx.execute(insert, [text])?)
        })
    };
    database.set_full(true).expect("a limit");
    assert_eq!(write().await, Err(StoreError::Full));
    database.set_full(false).expect("no limit");
    assert_eq!(write().await, Ok(1));
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_stopped() {
    let clock = Clock::simulated(crate::base::Timestamp::from_ms(0));
    let (_dir, db) = with_clock(&clock);
    let endless = db.read(|tx| {
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
                       SELECT count(*) FROM c";
        Ok(tx.query_row(endless, [], |row| row.get::<_, i64>(0))?)
    });
    let time_passes = async {
        loop {
            clock.advance(READ_DEADLINE * 2);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        result = endless => assert_eq!(result, Err(StoreError::TooSlow)),
        () = time_passes => unreachable!("it goes on for ever"),
    }
    assert_eq!(rows(&db).await, Vec::<i64>::new());
}

#[tokio::test]
async fn reads_of_an_entity_take_turns_with_those_of_others_and_leave_them_readers() {
    let (_dir, db) = threaded();
    let another = 1 + ENTITY_READERS as i64;
    let topics = [(1, vec![1, 11]), (2, vec![2]), (another, vec![another])];
    db.set_catalog(&catalog(topics));
    let (release, released) = blocking::channel::<()>();
    let first = db.read_in_turn(Some(SubscriptionId(1)), move |_| {
        Ok(released.recv().is_err())
    });
    let mut first = Box::pin(first);
    assert!(poll!(&mut first).is_pending());
    let order = Arc::new(Mutex::new(Vec::new()));
    let read = |of: i64, name: &'static str| {
        let (queue, names) = (SubscriptionId(of), Arc::clone(&order));
        Box::pin(db.read_in_turn(Some(queue), move |_| {
            names.lock().unwrap().push(name);
            Ok(())
        }))
    };
    let its = [1, 11].into_iter().cycle().take(READERS); // the subscriptions of one topic
    let mut waiting: Vec<_> = its.map(|of| read(of, "its next")).collect();
    waiting.push(read(another, "another's"));
    for each in &mut waiting {
        assert!(poll!(each).is_pending());
    }
    assert_eq!(read(2, "elsewhere").await, Ok(()));
    assert!(rows(&db).await.is_empty());
    assert_eq!(*order.lock().unwrap(), ["elsewhere"], "one at a time");
    drop(waiting.remove(1));
    drop(release);
    assert_eq!(first.await, Ok(true));
    for ended in join_all(waiting).await {
        assert_eq!(ended, Ok(()));
    }
    let expected = ["elsewhere", "its next", "another's", "its next", "its next"];
    assert_eq!(
        *order.lock().unwrap(),
        expected,
        "and nothing for one that went away"
    );
}

#[tokio::test]
async fn readers_cannot_write() {
    let (_dir, db) = threaded();
    let attempt = db
        .read(|tx| Ok(tx.execute("INSERT INTO t VALUES (9)", [])?))
        .await;
    assert!(matches!(attempt, Err(StoreError::Other(_))), "{attempt:?}");
}

#[tokio::test]
async fn a_change_without_a_savepoint_takes_its_group_with_it() {
    let (_dir, db) = threaded();
    insert(&db, 1).await.expect("room");
    let before = insert(&db, 2);
    let twice = db.write_in_group(|tx| {
        tx.execute("INSERT INTO t VALUES (3)", [])?;
        tx.execute("INSERT INTO t VALUES (3)", [])?;
        Ok(())
    });
    let (_, twice) = tokio::join!(before, twice);
    assert!(matches!(twice, Err(StoreError::Other(_))), "{twice:?}");
    let left = rows(&db).await;
    assert!(
        !left.contains(&3),
        "nothing of a ruined change is left: {left:?}"
    );
    db.write_in_group(|tx| Ok(tx.execute("INSERT INTO t VALUES (4)", [])?))
        .await
        .expect("goes on");
    assert!(rows(&db).await.contains(&4));
}

#[tokio::test]
async fn damage_fails_what_reads_it_and_ends_what_writes() {
    let (_dir, db, received) = damaged();
    let read = db
        .read(|tx| Ok(tx.query_row("SELECT count(*) FROM rotten", [], |r| r.get::<_, i64>(0))?))
        .await;
    assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
    assert!(received.try_recv().is_err(), "the process goes on");
    assert!(rows(&db).await.is_empty(), "the rest can be read");

    let (_dir, db, received) = damaged();
    let before = insert(&db, 1);
    let change = db.write(|tx| {
        tx.execute("INSERT INTO rotten VALUES ('y')", [])?;
        Ok::<_, StoreError>(())
    });
    let (_, change) = tokio::join!(before, change);
    assert!(matches!(change, Err(StoreError::Damaged(_))), "{change:?}");
    let rung = received.recv_timeout(std::time::Duration::from_secs(60));
    assert!(
        rung.is_ok_and(|error| error.is_fatal()),
        "a change with a savepoint"
    );
    assert_eq!(
        insert(&db, 2).await,
        Err(StoreError::Closed),
        "nothing more is written"
    );
    assert!(received.try_recv().is_err(), "it rings once");
}

/// Only the caller whose change failed may conclude that trying again is useless.
#[test]
fn the_others_of_a_ruined_group_hear_that_it_was_not_their_fault() {
    let mut connection = open_in_memory().expect("a database");
    migrate(&mut connection).expect("the schema");
    let writer = WriterConnection::new(connection, Timestamp::from_ms(0));
    writer
        .connection()
        .execute_batch("CREATE TABLE t (n INTEGER UNIQUE) STRICT; INSERT INTO t VALUES (1);")
        .expect("a table");
    let shared = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&shared);
    let first: Change = Box::new(move |group| {
        let result = undo_alone(group, |tx| {
            Ok::<_, StoreError>(tx.execute("INSERT INTO t VALUES (2)", [])?)
        });
        let reply: Reply =
            Box::new(move |commit| received.lock().unwrap().push(commit.and(result)));
        Ran {
            reply,
            failure: None,
        }
    });
    let mut second: Option<Change> = Some(Box::new(|group| {
        let twice = group
            .execute("INSERT INTO t VALUES (1)", [])
            .map_err(StoreError::from);
        Ran {
            reply: Box::new(|_| ()),
            failure: twice.err(),
        }
    }));
    let group = commit_group(&writer, Durability::Flushed, first, |_| second.take());
    let outcome = group.outcome.clone();
    assert!(matches!(outcome, Err(StoreError::Undone(_))), "{outcome:?}");
    group.tell();
    let received = shared.lock().unwrap();
    assert!(
        matches!(received.as_slice(), [Err(StoreError::Undone(_))]),
        "{received:?}"
    );
}

#[tokio::test]
async fn commits_are_timed_and_the_log_says_when_it_was_written_back() {
    let (_dir, db) = threaded();
    for n in 0..3 {
        insert(&db, n).await.expect("a row");
    }
    let engine_status = db.engine_status();
    let times = engine_status.commit_times;
    assert!((1..=3).contains(&times.commits), "{times:?}");
    assert!(Duration::ZERO < times.median && times.median <= times.longest);
    db.cut_log().await.expect("written back");
    insert(&db, 3).await.expect("a row"); // the log is cut off before the next change is looked at
    let written_back_at = db.engine_status().checkpointed_at.expect("a moment");
    assert!(engine_status.checkpointed_at <= Some(written_back_at));
    assert!(written_back_at <= Clock::system().now());
}
