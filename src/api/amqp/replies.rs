//! The links over which the nodes of a connection reply to requests.

use std::collections::{BTreeSet, HashMap};

use crate::api::amqp::event::LinkId;

/// An index of reply links that finds the link for a reply without a scan.
#[derive(Debug, Default)]
pub(super) struct ReplyLinks {
    /// The links by node address in lower case.
    by_node: HashMap<String, LinksOfNode>,
}

#[derive(Debug, Default)]
struct LinksOfNode {
    all: BTreeSet<LinkId>,
    /// The links by the reply address that the client has named.
    named: HashMap<String, BTreeSet<LinkId>>,
}

impl ReplyLinks {
    /// Adds a link over which `node` replies, with the reply address `to` if the client has named one.
    pub(super) fn add(&mut self, node: &str, to: Option<&str>, link: LinkId) {
        let of_node = self.by_node.entry(key(node)).or_default();
        of_node.all.insert(link);
        if let Some(to) = to {
            of_node.named.entry(to.to_owned()).or_default().insert(link);
        }
    }

    /// Removes a link that was added with the same arguments.
    pub(super) fn remove(&mut self, node: &str, to: Option<&str>, link: LinkId) {
        let node = key(node);
        let Some(of_node) = self.by_node.get_mut(&node) else {
            return;
        };
        of_node.all.remove(&link);
        if let Some((to, links)) = to.and_then(|to| Some((to, of_node.named.get_mut(to)?))) {
            links.remove(&link);
            if links.is_empty() {
                of_node.named.remove(to);
            }
        }
        if of_node.all.is_empty() {
            self.by_node.remove(&node);
        }
    }

    /// Returns the link for a reply of `node`: a link with the address `to`, otherwise the first link of the node.
    pub(super) fn find(&self, node: &str, to: Option<&str>) -> Option<LinkId> {
        let of_node = self.by_node.get(&key(node))?;
        let named = to.and_then(|to| of_node.named.get(to)?.first());
        named.or(of_node.all.first()).copied()
    }

    /// Counts the links over which `node` replies.
    pub(super) fn count(&self, node: &str) -> usize {
        let of_node = self.by_node.get(&key(node));
        of_node.map_or(0, |of_node| of_node.all.len())
    }
}

/// Returns the index key of a node. Node addresses are case-insensitive.
fn key(node: &str) -> String {
    node.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_goes_over_the_link_that_names_its_address() {
        let mut links = ReplyLinks::default();
        links.add("jobs/$management", None, 3);
        links.add("Jobs/$management", Some("own"), 5);
        links.add("jobs/$management", Some("own"), 4);
        links.add("others/$management", Some("own"), 1);
        let find = |links: &ReplyLinks, to| links.find("JOBS/$management", to);
        assert_eq!(find(&links, None), Some(3));
        assert_eq!(find(&links, Some("own")), Some(4));
        assert_eq!(find(&links, Some("nobody's")), Some(3));
        assert_eq!(links.count("jobs/$management"), 3);
        links.remove("jobs/$management", Some("own"), 4);
        assert_eq!(find(&links, Some("own")), Some(5));
        links.remove("jobs/$management", Some("own"), 5);
        links.remove("jobs/$management", None, 3);
        assert_eq!(find(&links, Some("own")), None);
        assert_eq!(links.find("others/$management", None), Some(1));
        assert_eq!(links.by_node.len(), 1, "nothing is kept of what is gone");
    }
}
