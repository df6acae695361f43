//! What is told of users, sessions, tokens and the audit log.

use axum::http::Method;
use serde_json::json;

use super::events::paging;
use super::operation::{Area, Operation, on, query};
use super::schema::{
    Schema, anything, count, flag, integer, list, list_of, moment, named, object, page_of, schemas,
    text, url, words,
};
use crate::broker::people::{
    LINK_LIFE, NAME_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX, PASSWORD_CHARACTERS_MIN,
    TOKEN_DAYS_MAX,
};
use crate::model::limits::AUDIT_ROWS_MAX;
use crate::store::accounts::Role;

pub(super) fn area() -> Area {
    let user_link = user().with([
        (
            "passwordUrl",
            url()
                .says("Where the user chooses a password, once.")
                .optional(),
        ),
        ("passwordUrlExpiresAt", moment().optional()),
    ]);
    Area {
        name: "People and tokens",
        says: "Who signs in to the admin pages, the tokens of programs, and what anybody has changed.",
        operations: operations(),
        schemas: schemas([
            ("User", user()),
            ("UserWithLink", user_link),
            ("NewUser", new_user()),
            ("UserUpdate", user_update()),
            ("Session", session()),
            ("ApiToken", token()),
            (
                "NewApiToken",
                token().with([("token", text().says("It is never shown again."))]),
            ),
            ("ApiTokenWish", wish()),
            ("AuditEntry", audit_entry()),
        ]),
    }
}

fn operations() -> Vec<Operation> {
    let all = users().into_iter().chain(sessions()).chain(tokens());
    let audit = on(
        Method::GET,
        "/everpost/audit",
        "listAudit",
        "List the audit log",
    )
    .says(format!(
        "What people and programs did, the newest first; {AUDIT_ROWS_MAX} entries are kept. Secrets are \
         left out."
    ))
    .with([
        query("actor", text(), "The name of a user or a token."),
        query("action", text(), "The action, such as `Create`."),
        query("targetKind", text(), "The kind of the target, such as `Topic`."),
        query(
            "target",
            text(),
            "The name of the target, or of what it is part of: `orders` finds `orders/billing`, too.",
        ),
        query("from", moment(), "At that moment or later."),
        query("to", moment(), "Before that moment."),
    ])
    .with(paging())
    .gives(200, "A page of entries.", page_of("AuditEntry"));
    let bundle = on(
        Method::POST,
        "/everpost/supportBundle",
        "makeSupportBundle",
        "Describe the appliance to somebody who is to help",
    )
    .says(
        "Version, settings with their origins, sizes, counts, topics, event subscriptions, the schema of the \
         database and the newest lines of the log, for people to read. Secrets and events are left out, and \
         of webhooks all but host and port. It changes nothing; that it was taken is noted.",
    )
    .gives(200, "The bundle.", anything());
    all.chain([audit, bundle]).collect()
}

fn users() -> [Operation; 6] {
    let (all, one) = ("/everpost/users", "/everpost/users/{name}");
    let days = LINK_LIFE.as_secs() / 86_400;
    [
        on(Method::GET, all, "listUsers", "List users")
            .says("All people who may sign in.")
            .gives(200, "The users.", list_of("User")),
        on(Method::POST, all, "createUser", "Create a user")
            .says(format!(
                "Without a password, the answer has a link by which the user chooses one; it holds for \
                 {days} days."
            ))
            .takes(named("NewUser"), json!({ "name": "ann", "role": "operator" }))
            .gives(201, "The user.", named("UserWithLink"))
            .refuses(409, "The name is taken, or there are as many users as there may be."),
        on(Method::GET, one, "getUser", "Get a user")
            .says("By name, in any letter case.")
            .gives(200, "The user.", named("User")),
        on(Method::PATCH, one, "patchUser", "Change a user")
            .says("What is left out stays. The last administrator stays one.")
            .takes(named("UserUpdate"), json!({ "role": "viewer" }))
            .gives(200, "The user.", named("User"))
            .refuses(409, "It is the last administrator."),
        on(Method::DELETE, one, "deleteUser", "Delete a user")
            .says("With all sessions.")
            .gives_nothing(204, "The user is gone.")
            .refuses(409, "It is the last administrator."),
        on(
            Method::POST,
            "/everpost/users/{name}/passwordLink",
            "putPasswordLink",
            "Make a password link",
        )
        .says(format!("An older link ends; the new one holds for {days} days."))
        .gives(200, "The user with the link.", named("UserWithLink")),
    ]
}

fn sessions() -> [Operation; 3] {
    let whose = || query("user", text(), "The name of a user; all users without it.");
    [
        on(
            Method::GET,
            "/everpost/sessions",
            "listSessions",
            "List sessions",
        )
        .says("Who is signed in, and from where.")
        .with([whose()])
        .gives(200, "The sessions.", list_of("Session"))
        .refuses(404, "There is no such user."),
        on(
            Method::POST,
            "/everpost/sessions/end",
            "endSessions",
            "End sessions",
        )
        .says("Those of one user, or all.")
        .with([whose()])
        .gives(200, "How many have ended.", object([("ended", count())]))
        .refuses(404, "There is no such user."),
        on(
            Method::DELETE,
            "/everpost/sessions/{id}",
            "endSession",
            "End a session",
        )
        .says("Nothing happens if it is not there.")
        .gives_nothing(204, "It has ended."),
    ]
}

fn tokens() -> [Operation; 4] {
    let (all, one) = ("/everpost/tokens", "/everpost/tokens/{name}");
    [
        on(Method::GET, all, "listTokens", "List API tokens")
            .says("Without the tokens themselves.")
            .gives(200, "The tokens.", list_of("ApiToken")),
        on(Method::POST, all, "createToken", "Create an API token")
            .says("The answer is the only one that holds the token.")
            .takes(
                named("ApiTokenWish"),
                json!({ "name": "deploy", "role": "admin", "days": 90 }),
            )
            .gives(201, "The token.", named("NewApiToken"))
            .refuses(
                409,
                "The name is taken, or there are as many tokens as there may be.",
            ),
        on(Method::GET, one, "getToken", "Get an API token")
            .says("Without the token itself.")
            .gives(200, "The token.", named("ApiToken")),
        on(Method::DELETE, one, "deleteToken", "Delete an API token")
            .says("It opens nothing any more, at once.")
            .gives_nothing(204, "It is gone."),
    ]
}

fn role() -> Schema {
    words(Role::ALL.map(Role::name))
}

fn name() -> Schema {
    text().long(&(1..=NAME_CHARACTERS_MAX))
}

fn password() -> Schema {
    let characters = PASSWORD_CHARACTERS_MIN..=PASSWORD_CHARACTERS_MAX;
    text().long(&characters).or_null().optional()
}

fn user() -> Schema {
    object([
        ("name", text()),
        ("role", role()),
        ("disabled", flag()),
        ("hasSecondFactor", flag()),
        ("hasPassword", flag()),
        ("createdAt", moment()),
        ("signedInAt", moment().or_null()),
    ])
}

fn new_user() -> Schema {
    object([("name", name()), ("role", role()), ("password", password())])
}

fn user_update() -> Schema {
    object([
        ("role", role().or_null().optional()),
        ("disabled", flag().or_null().optional()),
        ("password", password()),
        (
            "hasSecondFactor",
            flag()
                .or_null()
                .says("False removes it; only its user sets one up.")
                .optional(),
        ),
    ])
}

fn session() -> Schema {
    object([
        ("id", text()),
        ("user", text()),
        ("startedAt", moment()),
        ("usedAt", moment()),
        ("expiresAt", moment()),
        ("address", text().or_null()),
        ("browser", text().or_null()),
    ])
}

fn token() -> Schema {
    object([
        ("name", text()),
        ("role", role()),
        ("createdBy", text()),
        ("createdAt", moment()),
        ("expiresAt", moment().or_null()),
        ("usedAt", moment().or_null()),
    ])
}

fn wish() -> Schema {
    let days = integer().up_to(TOKEN_DAYS_MAX).or_null();
    object([
        ("name", name()),
        ("role", role()),
        ("days", days.says("Left out, it does not end.").optional()),
    ])
}

fn audit_entry() -> Schema {
    let change = object([
        ("property", text()),
        ("before", anything()),
        ("after", anything()),
    ]);
    object([
        ("id", integer()),
        ("at", moment()),
        (
            "actorKind",
            words(["User", "ApiToken", "ManagementToken", "CommandLine"]),
        ),
        ("actor", text()),
        ("address", text().or_null()),
        ("action", text()),
        ("targetKind", text()),
        ("target", text().says("The name or the number.")),
        ("sentence", text().says("The same for people.")),
        ("changes", list(change)),
    ])
}
