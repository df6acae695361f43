//! The only durable state: one SQLite file in a data directory of one's own.
//!
//! A method of a book is one whole change, or one question, in the words of the domain. It decides
//! nothing and is told the time. No connection, row or transaction crosses this line.

pub mod accounts;
mod catalog;
mod data_dir;
mod db;
mod deliveries;
mod error;
mod migrate;
mod row;
mod upkeep;
pub mod views;

use std::sync::Arc;

pub use accounts::Accounts;
pub use catalog::{Catalog, RegistryChange};
pub use data_dir::{DataDir, DataDirError, write_private};
pub use db::OnFatal;
pub use deliveries::{
    Accepted, Deliveries, Late, LeaseRequest, Leased, Orphans, Receipt, RequestMark, ResubmitError,
    Settled,
};
pub use error::StoreError;
pub use upkeep::Upkeep;
pub use views::Views;

use crate::base::Clock;
use crate::model::registry::ResourceScope;
use db::Db;

/// The name of the database file in the data directory.
const FILE: &str = "everpost.db";

/// The books. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub catalog: Catalog,
    pub deliveries: Deliveries,
    pub views: Views,
    pub accounts: Accounts,
    pub upkeep: Upkeep,
}

/// How a store is opened.
pub struct StoreOptions {
    pub clock: Clock,
    pub scope: ResourceScope,
    /// Told once, from the writer's thread, when the process must end.
    pub on_fatal: OnFatal,
}

impl Store {
    /// Opens the database in `data_dir`, making or upgrading it first; tells `progress` what takes long.
    pub fn open(
        data_dir: Arc<DataDir>,
        options: StoreOptions,
        progress: &dyn Fn(&str),
    ) -> Result<Self, StoreError> {
        let path = data_dir.file(FILE);
        migrate::migrate_file(&path, progress)?;
        let db = Db::open(&path, &options.clock, options.on_fatal)?;
        data_dir.sync().map_err(|error| {
            StoreError::Failed(format!("{}: {error}", data_dir.path().display()))
        })?;
        Ok(Self::of(db, options.scope, Some(data_dir)))
    }

    /// Opens a database in memory that does everything on the caller's thread: for simulations, which
    /// it keeps deterministic.
    pub fn open_inline(scope: ResourceScope) -> Result<Self, StoreError> {
        let mut connection = db::open_in_memory()?;
        migrate::migrate(&mut connection)?;
        Ok(Self::of(Db::inline(connection), scope, None))
    }

    fn of(db: Db, scope: ResourceScope, data_dir: Option<Arc<DataDir>>) -> Self {
        Self {
            catalog: Catalog {
                db: db.clone(),
                scope,
            },
            deliveries: Deliveries::new(db.clone()),
            views: Views { db: db.clone() },
            accounts: Accounts { db: db.clone() },
            upkeep: Upkeep { db, data_dir },
        }
    }
}
