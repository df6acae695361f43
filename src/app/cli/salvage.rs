//! `everpost salvage`: what a damaged database still holds, in a new data directory.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::app::boot::BESIDE_DATABASE;
use crate::app::cli::output::{note, plural, print};
use crate::app::cli::progress::ShownProgress;
use crate::app::cli::server::{InstallationArgs, existing_data_dir, reject_used};
use crate::store::{DataDir, Salvaged, SalvagedTable, Store};

#[derive(Args, Debug)]
pub(super) struct SalvageArgs {
    /// New data directory; it must be empty, or not exist yet
    #[arg(value_name = "NEW_DIR")]
    new_dir: PathBuf,
    #[command(flatten)]
    installation: InstallationArgs,
}

impl SalvageArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = self.installation.config()?;
        let old = DataDir::open(existing_data_dir(&config)?)?;
        reject_used(&self.new_dir)?;
        let new = DataDir::open(&self.new_dir)?;
        let mut progress = ShownProgress::new(None);
        let salvaged = Store::salvage(&old, &new, BESIDE_DATABASE, &mut |table, rows| {
            progress.set(rows, &format!(" rows of {table}"));
        })?;
        drop(progress);
        for table in salvaged.tables.iter().filter(|table| !table.is_whole()) {
            note(&lost(table));
        }
        Ok(print(&summary(&salvaged, new.path()))?)
    }
}

/// Says which rows of a table are not in the copy.
fn lost(table: &SalvagedTable) -> String {
    let mut losses: Vec<_> = table
        .unreadable
        .iter()
        .copied()
        .map(|(first, last)| range(first, last))
        .collect();
    losses.extend(table.cut_short.iter().map(|why| format!("the rest: {why}")));
    if table.rejected > 0 {
        let rows = plural(table.rejected, "row", "rows");
        losses.push(format!("{rows} that belonged to lost ones"));
    }
    format!("lost of {}: {}", table.name, losses.join(", "))
}

/// Numbers of rows on a damaged page.
fn range(first: i64, last: i64) -> String {
    match (first, last) {
        (i64::MIN, i64::MAX) => "everything".to_owned(),
        (i64::MIN, last) => format!("up to number {last}"),
        (first, i64::MAX) => format!("from number {first} on"),
        (first, last) => format!("numbers {first} to {last}"),
    }
}

fn summary(salvaged: &Salvaged, new: &Path) -> String {
    let rows: u64 = salvaged.tables.iter().map(|table| table.copied).sum();
    let rows = plural(rows, "row", "rows");
    let damaged = salvaged.tables.iter().filter(|table| !table.is_whole());
    let result = match damaged.count() {
        0 => "nothing is lost".to_owned(),
        1 => "one table has lost rows".to_owned(),
        more => format!("{more} tables have lost rows"),
    };
    let new = new.display();
    format!("{rows} copied to {new}; {result}\nstart with: everpost serve --data-dir {new}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_named() {
        let table = SalvagedTable {
            name: "event".to_owned(),
            copied: 5,
            rejected: 1,
            unreadable: vec![(i64::MIN, 4), (7, 9), (12, i64::MAX)],
            cut_short: None,
        };
        assert_eq!(
            lost(&table),
            "lost of event: up to number 4, numbers 7 to 9, from number 12 on, 1 row that belonged to lost ones"
        );
        let salvaged = Salvaged {
            tables: vec![table],
        };
        let said = summary(&salvaged, Path::new("/new"));
        assert!(said.starts_with("5 rows copied to /new; one table has lost rows\n"));
    }
}
