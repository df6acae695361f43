//! Paths in the manner of Azure Resource Manager, brought to the short form that the routes know.
//!
//! `/subscriptions/{s}/resourceGroups/{rg}/providers/Microsoft.EventGrid/topics/…` becomes `/topics/…`, and
//! `…/namespaces/…` becomes `/namespaces/…`, in any letter case of the fixed words. What `{s}` and `{rg}` are makes no difference here.

use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// Fixed words of the paths, as the routes spell them.
const WORDS: [&str; 12] = [
    "namespaces",
    "topics",
    "eventSubscriptions",
    "listKeys",
    "regenerateKey",
    "getFullUrl",
    "getDeliveryAttributes",
    "validate",
    "pause",
    "resume",
    "explain",
    "tryFilter",
];

/// Where a short path stands in Resource Manager's form, with names in braces for what makes no difference;
/// `None` for what Azure has no such path for.
pub(super) fn long_path(short: &str) -> Option<String> {
    let first = short.strip_prefix('/')?.split('/').next()?;
    let is_azures = first == "topics" || first == "namespaces";
    is_azures.then(|| {
        format!(
            "/subscriptions/{{subscriptionId}}/resourceGroups/{{resourceGroupName}}/providers/\
             Microsoft.EventGrid{short}"
        )
    })
}

/// Rewrites the path of `uri` if it is in Resource Manager's form, or begins with more than one slash, as those of
/// Azure's client for JavaScript do.
pub fn rewrite(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let single = path.strip_prefix('/')?.trim_start_matches('/');
    let has_more = single.len() + 1 < path.len();
    let short = short_path(single).or_else(|| has_more.then(|| format!("/{single}")))?;
    let path_and_query = match uri.query() {
        Some(query) => format!("{short}?{query}"),
        None => short,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Uri::from_parts(parts).ok()
}

fn short_path(path: &str) -> Option<String> {
    let (first, rest) = path.split_once('/')?;
    if !first.eq_ignore_ascii_case("subscriptions") {
        return None;
    }
    let segments: Vec<&str> = rest.split('/').collect();
    let rest = segments.get(1..)?; // without the Azure subscription
    let rest = match rest {
        [word, _group, rest @ ..] if word.eq_ignore_ascii_case("resourceGroups") => rest,
        rest => rest,
    };
    let rest = without_provider(rest)?;
    let mut short = String::new();
    let mut add = |place: usize, segment: &str| {
        short.push('/');
        // Fixed words and names take turns.
        short.push_str(if place.is_multiple_of(2) {
            word(segment)
        } else {
            segment
        });
    };
    let parent = rest.len().min(2);
    // The older form of a subscription's path names the provider a second time.
    let below = without_provider(&rest[parent..]).unwrap_or(&rest[parent..]);
    for (place, segment) in rest[..parent].iter().chain(below).enumerate() {
        add(place, segment);
    }
    (!short.is_empty()).then_some(short)
}

fn without_provider<'a, 'b>(segments: &'a [&'b str]) -> Option<&'a [&'b str]> {
    match segments {
        [providers, provider, rest @ ..]
            if providers.eq_ignore_ascii_case("providers")
                && provider.eq_ignore_ascii_case("Microsoft.EventGrid") =>
        {
            Some(rest)
        }
        _ => None,
    }
}

fn word(segment: &str) -> &str {
    WORDS
        .into_iter()
        .find(|word| word.eq_ignore_ascii_case(segment))
        .unwrap_or(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, short: Option<&str>) {
        let uri: Uri = path.parse().expect("a path");
        assert_eq!(
            rewrite(&uri).map(|uri| uri.to_string()).as_deref(),
            short,
            "{path}"
        );
    }

    #[test]
    fn short_paths_become_those_of_resource_manager() {
        for short in [
            "/topics",
            "/namespaces/n/topics/t/eventSubscriptions/s/listSigningSecrets",
        ] {
            let long = long_path(short).expect("a path of Azure's");
            let long = long.replace(['{', '}'], "");
            check(&long, Some(short));
        }
        assert_eq!(long_path("/everpost/events"), None);
    }

    #[test]
    fn more_than_one_slash_in_front_is_one() {
        check("//topics/orders?a=//", Some("/topics/orders?a=//"));
        check("/topics//orders", None);
        check("/", None);
        let long = "//subscriptions/s/providers/Microsoft.EventGrid/topics";
        check(long, Some("/topics"));
    }

    #[test]
    fn resource_manager_paths_become_short() {
        const G: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid";
        check(&format!("{G}/topics"), Some("/topics"));
        check(
            "/subscriptions/s/providers/Microsoft.EventGrid/topics?api-version=1",
            Some("/topics?api-version=1"),
        );
        check(&format!("{G}/topics/orders"), Some("/topics/orders"));
        check(
            &format!("{G}/topics/orders/listKeys"),
            Some("/topics/orders/listKeys"),
        );
        check(
            &format!("{G}/topics/orders/LISTKEYS"),
            Some("/topics/orders/listKeys"),
        );
        check(
            &format!("{G}/topics/o/eventSubscriptions/b"),
            Some("/topics/o/eventSubscriptions/b"),
        );
        check(
            &format!("{G}/topics/o/eventSubscriptions/b/getFullUrl?x=1"),
            Some("/topics/o/eventSubscriptions/b/getFullUrl?x=1"),
        );
        check(
            &format!("{G}/topics/o/providers/Microsoft.EventGrid/eventSubscriptions/Topics"),
            Some("/topics/o/eventSubscriptions/Topics"),
        );
        check(
            "/SUBSCRIPTIONS/s/resourcegroups/g/providers/microsoft.eventgrid/TOPICS/o/eventsubscriptions",
            Some("/topics/o/eventSubscriptions"),
        );
        check(
            &format!("{G}/topics/o/eventSubscriptions/b/EXPLAIN"),
            Some("/topics/o/eventSubscriptions/b/explain"),
        );
        check(
            &format!("{G}/topics/o/tryfilter"),
            Some("/topics/o/tryFilter"),
        );
        check(
            &format!("{G}/Namespaces/shop/Topics/Topics/EVENTSUBSCRIPTIONS/Pause/getfullurl"),
            Some("/namespaces/shop/topics/Topics/eventSubscriptions/Pause/getFullUrl"),
        );
        check(
            &format!("{G}/namespaces/shop/regeneratekey"),
            Some("/namespaces/shop/regenerateKey"),
        );
        check("/topics/orders", None);
        check("/subscriptions", None);
        check(
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/accounts",
            None,
        );
    }
}
