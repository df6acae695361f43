//! How many files the process may have open. Connections are files, and so are those of the store and of deliveries.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are left to the store and its readers, and to the 1,024 deliveries that are in flight at most unless set otherwise; half
/// of all if there are few.
const OWN_FILES: u64 = 1_280;

/// Raises the limit of open files as far as it may be raised: shells and containers begin with 1,024. Returns how many of `most`
/// connections there is room for.
pub(super) fn room_for_connections(most: usize) -> usize {
    let given = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: given.maximum,
        ..given
    };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let files = if is_raised {
        given.maximum
    } else {
        given.current
    };
    let room = room_in(files, most);
    if room < most {
        tracing::warn!(
            room,
            most,
            "the limit of open files has no room for as many connections as http.connections_max says"
        );
    }
    room
}

fn room_in(files: Option<u64>, most: usize) -> usize {
    let left = files
        .map(|files| files - OWN_FILES.min(files / 2))
        .and_then(|left| usize::try_from(left).ok());
    most.min(left.unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        for (files, expected) in [
            (None, 10_000),
            (Some(1_048_576), 10_000),
            (Some(1_024), 512),
            (Some(4_096), 2_816),
        ] {
            assert_eq!(room_in(files, 10_000), expected, "{files:?}");
        }
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_may_be() {
        room_for_connections(1);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
