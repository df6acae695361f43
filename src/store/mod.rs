//! The only durable state: one SQLite file in a private data directory.
//!
//! Each method is one transaction or one query, in terms of the domain. A method makes no decisions and receives the
//! current time as an argument. No connection, row or transaction leaves this module.

pub mod accounts;
mod alerts;
pub mod audit;
pub mod backup;
mod catalog;
mod engine;
mod error;
mod inspectors;
mod key_uses;
mod ledger;
mod provisioned;
mod rejections;
mod replay;
mod retention;
mod row;
mod settings;
mod sql;
pub mod views;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use accounts::Accounts;
pub use alerts::{Alerts, DueAlertMessage};
pub use audit::Audit;
pub use catalog::{AccessRuleChange, NamespaceChange, RegistryChange};
pub use engine::data_dir::{DataDir, DataDirError, free_bytes, write_private};
pub use engine::encryption::{InvalidMasterKey, MasterKeys};
pub use engine::fatal::OnFatal;
pub use engine::inline::{InlineDatabase, Pauses};
pub use engine::integrity::Integrity;
pub use engine::master_key::{MASTER_KEY_FILE, Rekeyed};
pub use engine::migrate::Upgrade;
pub use engine::new_data_dir::{NewDataDir, can_be_filled};
pub use engine::online_copy::Pages;
pub use engine::salvage::{Salvaged, SalvagedTable};
pub use engine::upkeep::{DatabaseSchema, EngineStatus, Sizes, Upkeep};
pub use engine::write_times::{CommitTimes, Longest};
pub use error::{BackupError, StoreError};
pub use inspectors::{Inspectors, PutOutcome};
pub use key_uses::KeyUses;
pub use ledger::append::{
    AppendRequest, Appended, Effects, EventProblem, HandedOver, MadeFrom, MessageFacts, NewEvent,
    PromisedNumber, QueueIntake,
};
pub use ledger::counters::QueueRoom;
pub use ledger::exports::{BlobEnd, BlobId, BlobRequest, ExportStatus, Exported, PendingBlob};
pub use ledger::fan_out::{FanOut, FannedOut};
pub use ledger::forward::{ForwardMark, ForwardQuery, ForwardRequest, Forwardable};
pub use ledger::lease::{Due, LeaseRequest, Leased};
pub use ledger::locks::{
    DeadLetterCause, DeferredQuery, ForwardOrigin, LockBatch, LockChanges, LockRequest,
    LockSelection, LockSettled, Locked, LocksSettled, NumberedQuery, PeekRequest, Peeked,
};
pub use ledger::notices::{NoticeMark, OwedNotice};
pub use ledger::request_marks::RequestMark;
pub use ledger::resubmit::{
    ReplayStep, ResubmitCandidate, ResubmitDone, ResubmitOutcome, ResubmitRequest, ResubmitTarget,
    Resubmitted, ResubmittedDelivery, SentOutcome,
};
pub use ledger::sessions::{SessionQuery, SessionRequest, SessionWait};
pub use ledger::settle::{
    DiscardRequest, Discarded, FreeChange, FreeChanges, FreeSettled, Settled, SettlementRecord,
};
pub use ledger::{Ledger, SessionStateChange, TransactionChanges, TransactionError};
pub use provisioned::ProvisionedStore;
pub use rejections::Rejections;
pub use replay::CommandResult;
pub use replay::search::{CandidateQuery, Candidates, IdRange, RangeCount};
pub use retention::deleted::{DeletedKind, ForgetRequest};
pub use retention::{PruneBatch, PruneRequest, PrunedRows};
pub use settings::SettingStore;
pub use views::Views;

use crate::base::{Clock, Entropy, Stopwatch};
use crate::model::registry::ResourceScope;
use crate::model::setting::SavedSettings;
use engine::db::{self, Db};
use engine::encryption::Encryption;
use engine::master_key::MasterKeyFile;
use engine::queue::Whose;
use engine::{log_file, migrate, place, repair, salvage};

/// The time limit for the repair of indexes at a start after a kill. Indexes that are not reached within it are checked
/// while the appliance runs.
const REPAIRED_WITHIN: Duration = Duration::from_secs(2);

/// The name of the database file in the data directory.
pub const FILE: &str = "everpost.db";

/// The version of the built-in SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// The store, by subject. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub ledger: Ledger,
    pub views: Views,
    pub inspectors: Inspectors,
    pub alerts: Alerts,
    pub key_uses: KeyUses,
    pub rejections: Rejections,
    pub accounts: Accounts,
    pub audit: Audit,
    pub settings: SettingStore,
    pub provisioned: ProvisionedStore,
    pub upkeep: Upkeep,
}

/// Options for opening a store.
pub struct StoreOptions {
    pub clock: Clock,
    pub entropy: Entropy,
    pub scope: ResourceScope,
    /// The keys that encrypt secrets. `None` to use the key file of the data directory, which is created if missing.
    pub master_keys: Option<MasterKeys>,
    /// The callback that is called once, when the process must end.
    pub on_fatal: OnFatal,
}

impl Store {
    /// Opens the database in `data_dir`, and creates or upgrades it first if needed. Reports slow steps to `progress`.
    pub fn open(
        data_dir: Arc<DataDir>,
        options: StoreOptions,
        progress: &dyn Fn(&str),
    ) -> Result<Self, StoreError> {
        let path = data_dir.file(FILE);
        place::judge(&data_dir)?;
        let was_closed = Self::was_closed(&data_dir);
        let mut found = Vec::from_iter(log_file::examine(&path)?);
        migrate::migrate_file(&path, progress)?;
        found.extend(repair::mend_schema(&path)?);
        if !was_closed {
            let stopwatch = Stopwatch::begin();
            let is_late = || stopwatch.took() > REPAIRED_WITHIN;
            found.extend(repair::repair(&path, &is_late)?.0);
        }
        let master_key = MasterKeyFile {
            data_dir: &data_dir,
            configured: options.master_keys.as_ref(),
            entropy: &options.entropy,
        };
        let encryption = master_key.unlock(&mut db::open_writer(&path)?, progress)?;
        let db = Db::open(&path, &options.clock, options.on_fatal)?;
        data_dir.sync().map_err(|error| {
            StoreError::Failed(format!("{}: {error}", data_dir.path().display()))
        })?;
        let mut store = Self::of(db, options.scope, encryption, Some(data_dir));
        store.upkeep.found_at_start = found.into();
        Ok(store)
    }

    /// Returns the upgrade that a start of this version would apply to the database in the data directory `folder`.
    /// Changes nothing. A running server may have the database open.
    pub fn upgrade_of(folder: &Path) -> Result<Upgrade, StoreError> {
        migrate::plan(&folder.join(FILE))
    }

    /// Returns the settings that are saved in the data directory `folder`. Returns none if there is no database or its
    /// schema is of another version. A running server may have the database open.
    pub fn saved_settings(folder: &Path) -> Result<SavedSettings, StoreError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(SavedSettings::new());
        }
        let Upgrade { from, to, .. } = migrate::plan(&path)?;
        if from == to {
            settings::all(&db::open_reader(&path)?)
        } else {
            Ok(SavedSettings::new())
        }
    }

    /// Reports whether the last process that opened the database in `data_dir` has closed it. Closing removes the log.
    pub fn was_closed(data_dir: &DataDir) -> bool {
        let log = std::fs::metadata(db::log_of(&data_dir.file(FILE)));
        log.map_or(true, |log| log.len() == 0)
    }

    /// Waits until the last clone of this store is dropped and the file is closed.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.upkeep.db.closed()
    }

    /// Opens a new database in memory, for simulations.
    pub fn open_inline(scope: ResourceScope) -> Result<Self, StoreError> {
        Ok(Self::open_on(InlineDatabase::new()?, scope))
    }

    /// Opens a store on an in-memory database that outlives the store, for simulations of a crash.
    pub fn open_on(database: InlineDatabase, scope: ResourceScope) -> Self {
        let encryption = database.encryption.clone();
        database.open();
        Self::of(Db::inline(database), scope, encryption, None)
    }

    /// Encrypts the secrets of the database in `data_dir` with a new master key. Reports the steps to `progress`.
    pub fn rekey(
        data_dir: &DataDir,
        entropy: &Entropy,
        progress: &dyn Fn(&str),
    ) -> Result<Rekeyed, StoreError> {
        let path = data_dir.file(FILE);
        place::judge(data_dir)?;
        migrate::migrate_file(&path, progress)?;
        let master_key = MasterKeyFile {
            data_dir,
            configured: None,
            entropy,
        };
        master_key.rekey(&mut db::open_writer(&path)?, progress)
    }

    /// Copies the readable rows of the damaged database in `old` to a new database in `new`, and the files named in
    /// `beside` if they exist. Writes nothing to `old`. Reports each table and the number of copied rows to `progress`.
    pub fn salvage(
        old: &DataDir,
        new: &DataDir,
        beside: &[&str],
        progress: &mut dyn FnMut(&str, u64),
    ) -> Result<Salvaged, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::Failed(format!("{}: {error}", new.path().display()))
        };
        let draft = NewDataDir::begin(new).map_err(failed)?;
        let salvaged = salvage::salvage(&old.file(FILE), &draft.file(FILE), progress)?;
        for name in beside.iter().filter(|name| old.file(name).is_file()) {
            std::fs::copy(old.file(name), draft.file(name)).map_err(failed)?;
        }
        let names = beside.iter().copied().chain([FILE]);
        draft.finish(names).map_err(failed)?;
        Ok(salvaged)
    }

    fn of(
        db: Db,
        scope: ResourceScope,
        encryption: Encryption,
        data_dir: Option<Arc<DataDir>>,
    ) -> Self {
        let ledger = Ledger {
            db: db.clone(),
            scope,
            encryption: encryption.clone(),
        };
        Self {
            views: Views {
                db: db.clone(),
                ledger: ledger.clone(),
            },
            ledger,
            inspectors: Inspectors {
                db: db.of(Whose::Inspectors),
            },
            alerts: Alerts {
                db: db.clone(),
                encryption: encryption.clone(),
            },
            key_uses: KeyUses { db: db.clone() },
            rejections: Rejections { db: db.clone() },
            accounts: Accounts {
                db: db.of(Whose::Accounts),
                encryption,
            },
            audit: Audit { db: db.clone() },
            settings: SettingStore { db: db.clone() },
            provisioned: ProvisionedStore { db: db.clone() },
            upkeep: Upkeep {
                db,
                data_dir,
                found_at_start: Arc::default(),
            },
        }
    }
}
