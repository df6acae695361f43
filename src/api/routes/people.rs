//! Users, sessions, tokens, the audit log, and what helps whoever runs the appliance.

use serde_json::{Value, json};

use crate::api::lists::{List, Page};
use crate::api::manage::people::{
    self, EndedSessions, NewUserBody, ShownSession, ShownUser, UserPatchBody, UserPutBody,
};
use crate::api::manage::tokens::{self, NewApiToken, NewTokenBody, ShownToken};
use crate::api::operate::audit;
use crate::api::operate::diagnostics;
use crate::api::routes::route::{
    ADMIN, Area, OPERATOR, Route, VIEWER, delete, get, patch, post, put,
};
use crate::broker::diagnostics::IntegrityStatus;
use crate::broker::people::LINK_LIFE;
use crate::model::limits::AUDIT_ROWS_MAX;
use crate::wire::audit::AuditEntryBody;
use crate::wire::query::{AuditParameters, Paging, SessionParameters};

pub(crate) fn area() -> Area {
    Area {
        name: "People and tokens",
        description: "Users of the admin pages, API tokens, and the audit log.",
        routes: routes(),
    }
}

fn routes() -> Vec<Route> {
    let all = users().into_iter().chain(sessions()).chain(tokens());
    let audit = get("/everpost/audit", ADMIN, audit::list)
        .doc("listAudit", "List the audit log")
        .says(format!(
            "What people and programs did, the newest first; {AUDIT_ROWS_MAX} entries are kept. Secrets are \
             left out."
        ))
        .query::<AuditParameters>()
        .query::<Paging>()
        .answers::<Page<AuditEntryBody>>(200, "A page of entries.");
    let bundle = post("/everpost/supportBundle", ADMIN, diagnostics::support_bundle).doc("makeSupportBundle", "Create a support bundle")
    .says(
        "Version, settings with their origins, sizes, counts, topics, event subscriptions, the schema of the \
         database and the newest lines of the log, for people to read. Secrets and events are left out, and \
         of webhooks all but host and port. It changes nothing; that it was taken is audited.",
    )
    .answers::<Value>(200, "The bundle.");
    let path = "/everpost/integrityCheck";
    let integrity = get(path, VIEWER, diagnostics::integrity)
        .doc("getIntegrityCheck", "Get the last integrity check")
        .says("How far the check of the database is, or what it found.")
        .answers::<IntegrityStatus>(200, "Its state.");
    let check = post(path, OPERATOR, diagnostics::check_integrity)
        .doc("startIntegrityCheck", "Check the integrity of the database")
        .says(
            "Reads every table and index, while everything goes on. One check runs at a time; after a crash one is \
             started by itself.",
        )
        .answers::<IntegrityStatus>(202, "It runs; ask for its state.");
    all.chain([audit, bundle, integrity, check]).collect()
}

fn users() -> [Route; 7] {
    let (all, one) = ("/everpost/users", "/everpost/users/{name}");
    let days = LINK_LIFE.as_secs() / 86_400;
    [
        get(all, ADMIN, people::list).doc("listUsers", "List users")
            .says("All people who may sign in.")
            .answers::<List<ShownUser>>(200, "The users."),
        post(all, ADMIN, people::create).doc("createUser", "Create a user")
            .says(format!(
                "Without a password, the answer has a link by which the user chooses one; it holds for \
                 {days} days."
            ))
            .takes::<NewUserBody>(json!({ "name": "ann", "role": "operator" }))
            .answers::<ShownUser>(201, "The user.")
            .rejects(409, "The name is taken, or there are as many users as there may be."),
        get(one, ADMIN, people::show).doc("getUser", "Get a user")
            .says("By name, in any letter case.")
            .answers::<ShownUser>(200, "The user."),
        patch(one, ADMIN, people::patch).doc("patchUser", "Change a user")
            .says("What is left out stays. The last administrator stays one.")
            .takes::<UserPatchBody>(json!({ "role": "viewer" }))
            .answers::<ShownUser>(200, "The user.")
            .rejects(409, "It is the last administrator."),
        put(one, ADMIN, people::put).doc("putUser", "Create or change a user")
            .says("A password is for a new user. Without one, the answer has a link as that of `createUser`.")
            .takes::<UserPutBody>(json!({ "role": "viewer" }))
            .answers::<ShownUser>(200, "The user, who was there before.")
            .answers::<ShownUser>(201, "The new user.")
            .rejects(409, "It is the last administrator, or there are as many users as there may be."),
        delete(one, ADMIN, people::delete).doc("deleteUser", "Delete a user")
            .says("With all sessions.")
            .answers_nothing(204, "The user is gone.")
            .rejects(409, "It is the last administrator."),
        post("/everpost/users/{name}/passwordLink", ADMIN, people::put_link).doc("putPasswordLink", "Create a password link")
        .says(format!("Replaces an older link. Valid for {days} days."))
        .answers::<ShownUser>(200, "The user with the link."),
    ]
}

fn sessions() -> [Route; 3] {
    [
        get("/everpost/sessions", ADMIN, people::list_sessions)
            .doc("listSessions", "List sessions")
            .says("Who is signed in, and from where.")
            .query::<SessionParameters>()
            .answers::<List<ShownSession>>(200, "The sessions.")
            .rejects(404, "There is no such user."),
        post("/everpost/sessions/end", ADMIN, people::end_sessions)
            .doc("endSessions", "End sessions")
            .says("Those of one user, or all.")
            .query::<SessionParameters>()
            .answers::<EndedSessions>(200, "How many have ended.")
            .rejects(404, "There is no such user."),
        delete("/everpost/sessions/{id}", ADMIN, people::end_session)
            .doc("endSession", "End a session")
            .says("Nothing happens if it is not there.")
            .answers_nothing(204, "It has ended."),
    ]
}

fn tokens() -> [Route; 4] {
    let (all, one) = ("/everpost/tokens", "/everpost/tokens/{name}");
    [
        get(all, ADMIN, tokens::list)
            .doc("listTokens", "List API tokens")
            .says("Without the tokens themselves.")
            .answers::<List<ShownToken>>(200, "The tokens."),
        post(all, ADMIN, tokens::create)
            .doc("createToken", "Create an API token")
            .says("The token is shown in this response only.")
            .takes::<NewTokenBody>(json!({ "name": "deploy", "role": "admin", "days": 90 }))
            .answers::<NewApiToken>(201, "The token.")
            .rejects(
                409,
                "The name is taken, or there are as many tokens as there may be.",
            ),
        get(one, ADMIN, tokens::show)
            .doc("getToken", "Get an API token")
            .says("Without the token itself.")
            .answers::<ShownToken>(200, "The token."),
        delete(one, ADMIN, tokens::delete)
            .doc("deleteToken", "Delete an API token")
            .says("It stops working at once.")
            .answers_nothing(204, "It is gone."),
    ]
}
