//! All pages behind the login: what they are called, who may read and who may send them, and what serves
//! them. The router, the navigation and every check of a link are made from it.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use crate::admin::action::{self, Call, Deletable, Question, Step, Subject, ask, carry_out};
use crate::admin::error::{self, PageResult};
use crate::admin::forms::sheet::{send, sheet};
use crate::admin::pages::access_rules::AccessRuleForm;
use crate::admin::pages::alerts::{AlertChannelForm, AlertRuleForm};
use crate::admin::pages::dead_letters::DeadLetterKey;
use crate::admin::pages::inspectors::InspectorForm;
use crate::admin::pages::namespaces::NamespaceForm;
use crate::admin::pages::playground::Tool;
use crate::admin::pages::queues::{MessageForm, QueueForm, QueueName};
use crate::admin::pages::service_bus::{BusRule, BusTopic, BusTopicForm, RuleForm};
use crate::admin::pages::subscriptions::{NewSecret, Subscription};
use crate::admin::pages::topics::{Events, NewSasTokenForm, TopicForm};
use crate::admin::pages::{
    access_rules, account, activity, alerts, api_reference, dead_letters, delivery, events,
    first_event, inspectors, keys, live, namespaces, overview, playground, queues, rejected_events,
    replays, service_bus, sessions, settings, subscriptions, system, theme, tokens, topics, users,
};
use crate::admin::security::open_form::OPEN_FORM_BYTES_MAX;
use crate::admin::security::{gate, login, password_again, password_link, provider, setup};
use crate::admin::site::Site;
use crate::admin::sitemap::CountedRows::{AlertsFiring, DeadLetters, NeedingAttention, Rejected};
use crate::admin::sitemap::{Button, CountedRows, PageInfo, PageRoles, SiteMap, SitemapList};
use crate::admin::widgets::Flash;
use crate::model::alert::{StoredAlertChannel, StoredAlertRule};
use crate::model::inspector::Inspector;
use crate::model::registry::{NamespaceEntry, TopicEntry};
use crate::model::replay::ReplayCommand;
use crate::model::shared_access::AccessRule;
use crate::store::accounts::Role::{Admin, Operator, Viewer};
use crate::store::accounts::{ApiToken, Role, User};

struct RegisteredPage {
    info: PageInfo,
    handler: Handler,
}

type Handler = MethodRouter<Arc<Site>>;

/// All pages; the navigation has them, and its groups, in this order. An address that answers a form with a page is
/// opened, too: whoever goes back to that page, or reads it again, gets the one with the form.
#[rustfmt::skip] // a table
fn pages() -> Vec<RegisteredPage> {
    vec![
        page("/", get(overview::show)).listed("", "Overview", "overview"),
        page("/topics", get(topics::list)).listed("Set up", "Topics", "topics"),
        admin_only("/new-topic", sheet::<TopicForm, ()>()),
        page("/topics/{topic}", get(topics::show)),
        page("/topics/{topic}/keys", get(topics::show).post(keys::reveal::<Arc<TopicEntry>>)).guarded(),
        admin_only("/topics/{topic}/keys/{key}/regenerate", post(keys::regenerate::<Arc<TopicEntry>>))
            .named("Regenerate key").asking(keys::ask_to_regenerate::<Arc<TopicEntry>>).guarded(),
        admin_only("/topics/{topic}/keys/token", sheet::<NewSasTokenForm, Arc<TopicEntry>>()).guarded(),
        deletes::<Arc<TopicEntry>>("/topics/{topic}/delete", "Delete topic"),
        admin_only("/topics/{topic}/retention", sheet::<TopicForm, Arc<TopicEntry>>()),
        operator("/topics/{topic}/publish", get(topics::compose).post(send::<Events, Arc<TopicEntry>>)),
        page("/namespaces", get(namespaces::list)).listed("Set up", "Namespaces", "namespaces"),
        admin_only("/new-namespace", sheet::<NamespaceForm, ()>()),
        page("/namespaces/{namespace}", get(namespaces::show)),
        admin_only("/namespaces/{namespace}/edit", sheet::<NamespaceForm, Arc<NamespaceEntry>>()),
        page("/namespaces/{namespace}/keys", get(namespaces::show).post(keys::reveal::<Arc<NamespaceEntry>>)).guarded(),
        admin_only("/namespaces/{namespace}/keys/{key}/regenerate", post(keys::regenerate::<Arc<NamespaceEntry>>))
            .named("Regenerate key").asking(keys::ask_to_regenerate::<Arc<NamespaceEntry>>).guarded(),
        admin_only("/namespaces/{namespace}/new-topic", sheet::<TopicForm, Arc<NamespaceEntry>>()),
        deletes::<Arc<NamespaceEntry>>("/namespaces/{namespace}/delete", "Delete namespace"),
        page("/subscriptions", get(subscriptions::list)).listed("Set up", "Subscriptions", "subscriptions").counting(NeedingAttention),
        operator("/subscriptions/pause", subscriptions::PAUSE_SELECTED.handler(subscriptions::pause)),
        operator("/subscriptions/resume", subscriptions::RESUME_SELECTED.handler(subscriptions::resume)),
        admin_only("/new-subscription", get(subscriptions::choose_topic)),
        admin_only("/topics/{topic}/new-subscription", get(subscriptions::open).post(subscriptions::save)),
        admin_only("/topics/{topic}/new-subscription/draft", get(subscriptions::open).post(subscriptions::redraw)),
        page("/topics/{topic}/subscriptions/{name}", get(subscriptions::show)),
        admin_only("/topics/{topic}/subscriptions/{name}/edit", get(subscriptions::open).post(subscriptions::save)),
        admin_only("/topics/{topic}/subscriptions/{name}/edit/draft",
            get(subscriptions::open).post(subscriptions::redraw)),
        operator("/topics/{topic}/subscriptions/{name}/try-filter", get(subscriptions::try_filter)),
        admin_only("/topics/{topic}/subscriptions/{name}/signing",
            sheet::<NewSecret, Subscription>()),
        action("/topics/{topic}/subscriptions/{name}/signing/stop", Admin, "Stop signing", subscriptions::stop_signing)
            .asking(subscriptions::ask_to_stop_signing),
        page("/topics/{topic}/subscriptions/{name}/url",
            get(subscriptions::show).post(subscriptions::reveal_url)).guarded(),
        action("/topics/{topic}/subscriptions/{name}/validate", Operator, "Validate again", subscriptions::validate),
        action("/topics/{topic}/subscriptions/{name}/pause", Operator, "Pause", subscriptions::pause),
        action("/topics/{topic}/subscriptions/{name}/resume", Operator, "Resume", subscriptions::resume),
        action("/topics/{topic}/subscriptions/{name}/retry-now", Operator, "Retry now", subscriptions::retry_now),
        deletes::<Subscription>("/topics/{topic}/subscriptions/{name}/delete", "Delete subscription"),
        page("/queues", get(queues::list)).listed("Set up", "Queues", "queues"),
        page("/export-queues", get(queues::export)),
        admin_only("/new-queue", sheet::<QueueForm, ()>()),
        page("/queues/{queue}", get(queues::show)),
        admin_only("/queues/{queue}/edit", sheet::<QueueForm, QueueName>()),
        page("/queues/{queue}/keys", get(queues::show).post(keys::reveal::<QueueName>)).guarded(),
        admin_only("/queues/{queue}/keys/{key}/regenerate", post(keys::regenerate::<QueueName>))
            .named("Regenerate key").asking(keys::ask_to_regenerate::<QueueName>).guarded(),
        operator("/queues/{queue}/send", get(queues::compose::<QueueName>).post(send::<MessageForm, QueueName>)),
        page("/queues/{queue}/messages/{number}", get(queues::show_message)),
        operator("/queues/{queue}/messages/{number}/body", get(queues::download)),
        deletes::<QueueName>("/queues/{queue}/delete", "Delete queue"),
        page("/service-bus-topics", get(service_bus::list)).listed("Set up", "Service Bus topics", "bus-topics"),
        admin_only("/new-service-bus-topic", sheet::<BusTopicForm, ()>()),
        page("/service-bus-topics/{topic}", get(service_bus::show)),
        admin_only("/service-bus-topics/{topic}/edit", sheet::<BusTopicForm, BusTopic>()),
        page("/service-bus-topics/{topic}/keys", get(service_bus::show).post(keys::reveal::<BusTopic>)).guarded(),
        admin_only("/service-bus-topics/{topic}/keys/{key}/regenerate", post(keys::regenerate::<BusTopic>))
            .named("Regenerate key").asking(keys::ask_to_regenerate::<BusTopic>).guarded(),
        operator("/service-bus-topics/{topic}/send", get(queues::compose::<BusTopic>).post(send::<MessageForm, BusTopic>)),
        deletes::<BusTopic>("/service-bus-topics/{topic}/delete", "Delete topic"),
        admin_only("/service-bus-topics/{topic}/new-subscription", sheet::<QueueForm, BusTopic>()),
        page("/service-bus-topics/{topic}/subscriptions/{name}", get(queues::show)),
        admin_only("/service-bus-topics/{topic}/subscriptions/{name}/edit", sheet::<QueueForm, QueueName>()),
        page("/service-bus-topics/{topic}/subscriptions/{name}/messages/{number}", get(queues::show_message)),
        operator("/service-bus-topics/{topic}/subscriptions/{name}/messages/{number}/body", get(queues::download)),
        deletes::<QueueName>("/service-bus-topics/{topic}/subscriptions/{name}/delete", "Delete subscription"),
        operator("/service-bus-topics/{topic}/subscriptions/{name}/try-rule", get(service_bus::try_rule)),
        admin_only("/service-bus-topics/{topic}/subscriptions/{name}/new-rule", sheet::<RuleForm, QueueName>()),
        admin_only("/service-bus-topics/{topic}/subscriptions/{name}/rules/{rule}/edit", sheet::<RuleForm, BusRule>()),
        deletes::<BusRule>("/service-bus-topics/{topic}/subscriptions/{name}/rules/{rule}/delete", "Delete rule"),
        page("/access-rules", get(access_rules::list)).listed("Set up", "Access rules", "shield"),
        admin_only("/new-access-rule", sheet::<AccessRuleForm, ()>()).guarded(),
        page("/access-rules/{rule}", get(access_rules::show)),
        admin_only("/access-rules/{rule}/edit", sheet::<AccessRuleForm, Arc<AccessRule>>()).guarded(),
        page("/access-rules/{rule}/keys", get(access_rules::show).post(keys::reveal::<Arc<AccessRule>>)).guarded(),
        admin_only("/access-rules/{rule}/keys/{key}/regenerate", post(keys::regenerate::<Arc<AccessRule>>))
            .named("Regenerate key").asking(keys::ask_to_regenerate::<Arc<AccessRule>>).guarded(),
        deletes::<Arc<AccessRule>>("/access-rules/{rule}/delete", "Delete access rule"),
        page("/inspectors", get(inspectors::list)).listed("Set up", "Inspectors", "inspectors"),
        page("/events", get(events::list)).listed("Watch", "Events", "events"),
        operator("/events/export", get(events::export)),
        page("/events/{key}", get(events::show)),
        operator("/events/{key}/data", get(events::download)),
        action("/events/{key}/send/{subscription}", Operator, "Send event", events::send).asking(events::ask_to_send),
        page("/rejected-events", get(rejected_events::list)).listed("Watch", "Rejected events", "rejected").counting(Rejected),
        page("/rejected-events/{id}", get(rejected_events::show)),
        page("/dead-letters", get(dead_letters::list)).listed("Watch", "Dead letters", "dead").counting(DeadLetters),
        operator("/dead-letters/resubmit", dead_letters::RESUBMIT_SELECTED.handler(dead_letters::resubmit)),
        operator("/dead-letters/resubmit-all", get(dead_letters::ask_to_replay).post(dead_letters::replay)),
        operator("/dead-letters/export", get(dead_letters::download)),
        admin_only("/dead-letters/purge", get(dead_letters::ask_to_purge).post(dead_letters::purge)),
        page("/dead-letters/{id}", get(dead_letters::show)),
        operator("/dead-letters/{id}/edit", get(dead_letters::edit).post(dead_letters::resubmit_edited)),
        deletes::<DeadLetterKey>("/dead-letters/{id}/delete", "Delete dead letter"),
        action("/dead-letters/{id}/resubmit", Operator, "Resubmit dead letter", dead_letters::resubmit)
            .asking(dead_letters::ask_to_resubmit),
        page("/replays", get(replays::list)).listed("Watch", "Replay jobs", "replay"),
        page("/replays/{id}", get(replays::show)),
        action("/replays/{id}/pause", Operator, "Pause", |call| replays::command(call, ReplayCommand::Pause)),
        action("/replays/{id}/resume", Operator, "Resume", |call| replays::command(call, ReplayCommand::Resume)),
        action("/replays/{id}/cancel", Operator, "Cancel replay job",
            |call| replays::command(call, ReplayCommand::Cancel)).asking(replays::ask_to_cancel),
        page("/alerts", get(alerts::show)).listed("Watch", "Alerts", "alerts").counting(AlertsFiring),
        admin_only("/new-alert-rule", sheet::<AlertRuleForm, ()>()),
        admin_only("/alert-rules/{rule}/edit", sheet::<AlertRuleForm, StoredAlertRule>()),
        action("/alert-rules/{rule}/enable", Admin, "Enable", |call| alerts::enable(call, true)),
        action("/alert-rules/{rule}/disable", Admin, "Disable", |call| alerts::enable(call, false)),
        deletes::<StoredAlertRule>("/alert-rules/{rule}/delete", "Delete rule"),
        admin_only("/new-alert-channel", sheet::<AlertChannelForm, ()>()),
        admin_only("/alert-channels/{channel}/edit", sheet::<AlertChannelForm, StoredAlertChannel>()),
        action("/alert-channels/{channel}/test", Admin, "Test", alerts::test_channel),
        deletes::<StoredAlertChannel>("/alert-channels/{channel}/delete", "Delete channel"),
        admin_only("/new-inspector", sheet::<InspectorForm, ()>()),
        operator("/inspectors/{name}", get(inspectors::show)),
        admin_only("/inspectors/{name}/edit", sheet::<InspectorForm, Inspector>()),
        action("/inspectors/{name}/subscribe", Admin, "Subscribe", inspectors::subscribe),
        action("/inspectors/{name}/clear", Operator, "Clear requests", inspectors::clear).asking(inspectors::ask_to_clear),
        deletes::<Inspector>("/inspectors/{name}/delete", "Delete inspector"),
        operator("/inspectors/{name}/requests/{number}", get(inspectors::show_request)),
        action("/deliveries/{id}/retry-now", Operator, "Retry now", delivery::retry_now),
        page("/playground", get(playground::show)).listed("Try", "Playground", "playground"),
        any_user("/playground/filter", playground::tool(Tool::Filter)),
        any_user("/playground/convert", playground::tool(Tool::Convert)),
        any_user("/playground/signature", playground::tool(Tool::Signature)),
        admin_only("/playground/token", get(playground::choose_topic)),
        page("/api", get(api_reference::list)).listed("Try", "API", "api"),
        page("/api/openapi.json", get(api_reference::download)),
        page("/api/{operation}", get(api_reference::show)),
        admin_only("/first-event", get(first_event::show).post(first_event::prepare)),
        admin_only("/first-event/{step}", get(first_event::show).post(first_event::publish)),
        admin_only("/first-event/repair", get(first_event::show).post(first_event::repair)),
        page("/live", get(live::stream)),
        admin_only("/users", get(users::list)).listed("People", "Users", "users"),
        admin_only("/new-user", sheet::<users::UserForm, ()>()).guarded(),
        admin_only("/users/{user}", get(users::show)),
        action("/users/{user}/role", Admin, "Change role", users::change_role).opening(get(users::show)).guarded(),
        action("/users/{user}/disable", Admin, "Disable", |call| users::set_disabled(call, true)).opening(get(users::show)).guarded(),
        action("/users/{user}/enable", Admin, "Enable", |call| users::set_disabled(call, false)).opening(get(users::show)).guarded(),
        admin_only("/users/{user}/password-link", get(users::show).post(users::put_link)).guarded(),
        action("/users/{user}/remove-second-factor", Admin, "Remove second factor", users::remove_second_factor)
            .opening(get(users::show)).guarded(),
        action("/users/{user}/end-sessions", Admin, "End all sessions", users::end_sessions),
        deletes::<User>("/users/{user}/delete", "Delete user").guarded(),
        admin_only("/tokens", get(tokens::list)).listed("People", "API tokens", "tokens"),
        admin_only("/new-token", sheet::<tokens::ApiTokenForm, ()>()).guarded(),
        deletes::<ApiToken>("/tokens/{token}/delete", "Delete token").guarded(),
        admin_only("/activity", get(activity::list)).listed("People", "Activity", "activity"),
        admin_only("/activity/export", get(activity::export)),
        admin_only("/sessions", get(sessions::list)),
        action("/sessions/end", Admin, "End all others", sessions::end_all),
        action("/sessions/{session}/end", Admin, "End session", sessions::end_one),
        page("/settings", get(settings::show)).listed("Appliance", "Settings", "settings"),
        admin_only("/settings/{setting}/edit", get(settings::edit).post(settings::save)),
        action("/settings/{setting}/reset", Admin, "Reset", settings::reset),
        operator("/settings/try-url", get(settings::show).post(settings::try_url)),
        operator("/system", get(system::show)).listed("Appliance", "System", "system"),
        operator("/system/count", get(system::show).post(system::count)),
        admin_only("/system/support-bundle", post(system::support_bundle)),
        operator("/system/check", get(system::show).post(system::check)),
        admin_only("/system/back-up", sheet::<system::BackupForm, ()>()),
        admin_only("/system/test-connection", get(system::show).post(system::test_connection)),
        any_user("/account", get(account::show)),
        any_user("/account/time-zone", get(account::show).post(account::change_zone)),
        any_user("/account/password", get(account::show).post(account::change_password)),
        any_user("/account/second-factor", get(account::offer_second_factor).post(account::set_up_second_factor)),
        any_user("/account/second-factor/remove", get(account::show).post(account::remove_second_factor)),
        action("/account/sessions/end", Viewer, "End all others", sessions::end_others),
        action("/account/sessions/{session}/end", Viewer, "End session", sessions::end_own),
        any_user("/logout", post(login::log_out)),
    ]
}

impl RegisteredPage {
    /// Requires that the password was typed lately before the form is sent, for secrets and rights.
    fn guarded(mut self) -> Self {
        self.info.asks_again = true;
        self
    }

    /// Adds a handler that opens the address of the form, for forms that a password comes before.
    fn opening(mut self, page: Handler) -> Self {
        self.handler = self.handler.merge(page);
        self
    }

    fn named(mut self, label: &'static str) -> Self {
        self.info.button = Some(Button { label, asks: false });
        self
    }

    fn asking<S: Subject, Q: Future<Output = PageResult<Question>> + Send + 'static>(
        mut self,
        question: fn(Call<S>) -> Q,
    ) -> Self {
        let label = self.info.button.map_or("", |button| button.label);
        self.info.button = Some(Button { label, asks: true });
        let question: Step<S, Question> = Arc::new(move |call| Box::pin(question(call)));
        self.opening(get(move |call: Call<S>| ask(call, label, question)))
    }

    fn listed(mut self, group: &'static str, title: &'static str, icon: &'static str) -> Self {
        self.info.nav = Some(SitemapList {
            group,
            title,
            icon,
            counts: None,
        });
        self
    }

    fn counting(mut self, counted: CountedRows) -> Self {
        if let Some(listing) = &mut self.info.nav {
            listing.counts = Some(counted);
        }
        self
    }
}

fn page(path: &'static str, handler: Handler) -> RegisteredPage {
    for_roles(path, Role::Viewer, Role::Admin, handler)
}

fn admin_only(path: &'static str, handler: Handler) -> RegisteredPage {
    for_roles(path, Role::Admin, Role::Admin, handler)
}

fn operator(path: &'static str, handler: Handler) -> RegisteredPage {
    for_roles(path, Role::Operator, Role::Operator, handler)
}

fn any_user(path: &'static str, handler: Handler) -> RegisteredPage {
    for_roles(path, Role::Viewer, Role::Viewer, handler)
}

fn action<S: Subject, R: Future<Output = PageResult<Flash>> + Send + 'static>(
    path: &'static str,
    role: Role,
    label: &'static str,
    run: fn(Call<S>) -> R,
) -> RegisteredPage {
    let run: Step<S, Flash> = Arc::new(move |call| Box::pin(run(call)));
    let handler = post(move |call: Call<S>| carry_out(call, run));
    for_roles(path, role, role, handler).named(label)
}

fn deletes<S: Deletable>(path: &'static str, label: &'static str) -> RegisteredPage {
    action(path, Role::Admin, label, action::delete::<S>).asking(action::ask_to_delete::<S>)
}

fn for_roles(path: &'static str, reads: Role, changes: Role, handler: Handler) -> RegisteredPage {
    RegisteredPage {
        info: PageInfo {
            path,
            nav: None,
            access: PageRoles { reads, changes },
            asks_again: false,
            button: None,
        },
        handler,
    }
}

/// The pages, without their handlers.
pub(crate) static SITE_MAP: LazyLock<SiteMap> = LazyLock::new(|| SiteMap {
    pages: pages().into_iter().map(|page| page.info).collect(),
});

pub(crate) fn router(site: &Arc<Site>) -> Router<Arc<Site>> {
    let mut router = Router::new();
    for RegisteredPage { info, mut handler } in pages() {
        if info.asks_again {
            handler = handler.layer(from_fn_with_state(site.clone(), password_again::ask));
        }
        let guard = from_fn_with_state(info.access, gate::authorize);
        router = router.route(info.path, handler.layer(guard));
    }
    router
        .fallback(error::no_such_page)
        .method_not_allowed_fallback(error::no_such_action)
}

#[rustfmt::skip] // a table
pub(crate) fn open_forms() -> Router<Arc<Site>> {
    Router::new()
        .route("/login", get(login::show).post(login::submit))
        .route("/login/provider", get(provider::begin))
        .route("/login/provider/sign-out", get(provider::sign_out))
        .route("/login/callback", get(provider::end))
        .route("/login/code", get(login::ask_code).post(login::submit_code))
        .route("/setup", get(setup::show).post(setup::submit))
        .route("/password", get(password_link::show).post(password_link::submit))
        .route("/theme", post(theme::choose))
        .layer(DefaultBodyLimit::max(OPEN_FORM_BYTES_MAX))
        .method_not_allowed_fallback(error::no_such_action)
}
