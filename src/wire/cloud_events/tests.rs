use super::*;

const VALID: &str = r#""specversion":"1.0","id":"1","source":"/s","type":"T""#;

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().expect("a header's value"));
    }
    headers
}

fn told(result: Result<Vec<Event>, BadInput>) -> String {
    result.map_or_else(
        |bad| bad.to_string(),
        |events| format!("{} read", events.len()),
    )
}

/// Reads a structured event with these properties more than the required ones.
fn check(more: &str, rejection: &str) {
    let headers = headers(&[("content-type", "application/cloudevents+json")]);
    let result = decode(&headers, format!("{{{VALID}{more}}}").as_bytes());
    let expected = if rejection.is_empty() {
        "1 read"
    } else {
        rejection
    };
    assert_eq!(told(result), expected, "{more}");
}

#[test]
fn each_rule_of_the_attributes_is_checked() {
    check("", "");
    check(
        r#","subject":null,"time":null,"traceparent":null,"data_base64":null"#,
        "",
    );
    check(
        r#","subject":"","time":"2026-11-21T06:40:53Z","dataschema":"u:s","n1":5,"b":true"#,
        "",
    );
    check(
        r#","time":"6:40""#,
        "field \"time\": \"6:40\" is not a date and time with its zone; expected RFC 3339 such as \
         2026-11-21T06:40:53Z",
    );
    check(
        r#","subject":5"#,
        "field \"subject\": it is a number; expected a string",
    );
    check(
        r#","datacontenttype":5"#,
        "field \"datacontenttype\": it is a number; expected a string",
    );
    check(r#","id":"2""#, "field \"id\": it is there more than once");
    for name in ["", "traceParent", "trace_parent", "größe"] {
        check(
            &format!(",{name:?}:\"x\""),
            &format!(
                "field {name:?}: the name of a CloudEvents attribute consists of lower-case letters \
                 and digits alone"
            ),
        );
    }
    check(r#","n":-2147483648,"m":2147483647"#, "");
    for number in ["2147483648", "1.5", "1e3"] {
        check(
            &format!(r#","n":{number}"#),
            &format!(
                "field \"n\": {number} is not an integer of 32 bits, and CloudEvents has no other numbers; send it \
                 as a string"
            ),
        );
    }
    check(
        r#","extension":{}"#,
        "field \"extension\": it is an object; an extension attribute is a string, a number or a \
         boolean",
    );
}

#[test]
fn required_attributes_are_required() {
    let headers = headers(&[("content-type", "application/cloudevents-batch+json")]);
    for name in ["id", "source", "type"] {
        let kept: Vec<&str> = VALID
            .split(',')
            .filter(|property| !property.starts_with(&format!("{name:?}")))
            .collect();
        let kept = kept.join(",");
        for (more, problem) in [
            ("", "it is missing"),
            (":null", "it is missing"),
            (":\" \"", "it is blank"),
            (":[]", "it is an array; expected a string"),
        ] {
            let more = if more.is_empty() {
                String::new()
            } else {
                format!(",{name:?}{more}")
            };
            let result = decode(
                &headers,
                format!("[{{{VALID}}},{{{kept}{more}}}]").as_bytes(),
            );
            assert_eq!(
                told(result),
                format!("event [1], field {name:?}: {problem}")
            );
        }
    }
}

#[test]
fn the_version_is_looked_at_first() {
    let missing = "it is missing; this topic is configured for the 'CloudEventV10' schema, which \
                   requires it";
    for (properties, problem) in [
        (r#""id":"1","eventType":"T""#, missing),
        (r#""specversion":null"#, missing),
        (
            r#""specversion":"0.3""#,
            "\"0.3\" is not supported; expected \"1.0\"",
        ),
        (r#""specversion":1.0"#, "it is a number; expected a string"),
    ] {
        let headers = headers(&[("content-type", "application/cloudevents+json")]);
        let result = decode(&headers, format!("{{{properties}}}").as_bytes());
        assert_eq!(told(result), format!("field \"specversion\": {problem}"));
    }
    let headers = headers(&[("ce-id", "1"), ("ce-data", "x")]);
    assert_eq!(
        told(decode(&headers, b"")),
        format!("field \"specversion\": {missing}")
    );
}

#[test]
fn data_comes_in_one_form() {
    check(r#","data":null"#, "");
    check(r#","data":"text","datacontenttype":"text/plain""#, "");
    check(
        r#","data":{},"datacontenttype":"application/vnd.x+json""#,
        "",
    );
    check(
        r#","data":{},"datacontenttype":"Application/JSON; charset=utf-8""#,
        "",
    );
    check(r#","data":null,"datacontenttype":"text/plain""#, "");
    check(r#","data":null,"data_base64":"AAE=""#, "");
    check(r#","data":{},"data_base64":null"#, "");
    check(
        r#","data":{},"data_base64":"AAE=""#,
        "field \"data_base64\": it excludes the field \"data\"; send one of them",
    );
    for data in ["{}", "[1]", "7", "\"x\""] {
        check(
            &format!(r#","data":{data},"datacontenttype":"text/plain""#),
            "",
        );
    }
    check(
        r#","data_base64":"A""#,
        "field \"data_base64\": it is not valid base64: Invalid input length: 1",
    );
    check(
        r#","data_base64":1"#,
        "field \"data_base64\": it is a number; expected a string",
    );
}

#[test]
fn the_content_type_tells_the_mode() {
    let one = format!("{{{VALID}}}");
    let array = format!("[{one},{one}]");
    let array_told = "this topic is configured for the 'CloudEventV10' schema. Token Expected: \
                      StartObject, Actual Token Received: StartArray. Send an array with the \
                      Content-Type application/cloudevents-batch+json";
    let unexpected = "Unexpected token when reading JSON. Expected: ";
    for (content_type, body, expected) in [
        ("application/cloudevents+json", &one, "1 read"),
        (
            "application/cloudevents+json; charset=UTF-8",
            &one,
            "1 read",
        ),
        (
            "application/cloudevents-batch+json; charset=utf-8",
            &array,
            "2 read",
        ),
        (
            "Application/CloudEvents-Batch+JSON",
            &"[]".to_owned(),
            "0 read",
        ),
        ("application/json", &one, "1 read"),
        ("", &one, "1 read"),
        ("application/json", &array, array_told),
        (
            "application/cloudevents+json",
            &array,
            &format!("{unexpected}StartObject, actual: StartArray"),
        ),
        (
            "application/cloudevents-batch+json",
            &one,
            &format!("{unexpected}StartArray, actual: StartObject"),
        ),
    ] {
        let headers = headers(&[("content-type", content_type)]);
        assert_eq!(
            told(decode(&headers, body.as_bytes())),
            expected,
            "{content_type}"
        );
    }
    for content_type in [
        "text/plain",
        "application/cloudevents+avro",
        "application/xml",
    ] {
        let headers = headers(&[("content-type", content_type)]);
        let bad = decode(&headers, one.as_bytes()).expect_err(content_type);
        assert_eq!(bad.kind, BadInputKind::UnsupportedEncoding);
    }
}

const BINARY: [(&str, &str); 4] = [
    ("ce-specversion", "1.0"),
    ("ce-id", "1"),
    ("ce-source", "/s"),
    ("ce-type", "T"),
];

#[test]
fn bodies_of_binary_mode_become_data() {
    let json = |text: &str| EventData::Json(text.to_owned());
    let base64 = |text: &str| EventData::Binary(STANDARD.decode(text).expect(text).into());
    for (content_type, body, expected) in [
        (
            "application/json",
            &b" {\"a\" : 1}\n"[..],
            json("{\"a\" : 1}"),
        ),
        ("application/json", b"", EventData::Absent),
        ("", b"[1]", json("[1]")),
        ("", b"\xef\xbb\xbf[1]", json("[1]")),
        ("", b"\0\xff", base64("AP8=")),
        ("", b"plain", base64("cGxhaW4=")),
        ("application/vnd.x+json; charset=utf-8", b"1", json("1")),
        ("text/plain", "a\"ä\n".as_bytes(), json("\"a\\\"ä\\n\"")),
        ("text/plain; charset=iso-8859-1", b"\xe4", base64("5A==")),
        ("text/plain", b"\xe4", base64("5A==")),
        ("application/xml", b"<a/>", json("\"<a/>\"")),
        ("image/png", b"abc", base64("YWJj")),
    ] {
        let mut lines = BINARY.to_vec();
        lines.extend((!content_type.is_empty()).then_some(("content-type", content_type)));
        let events = decode(&headers(&lines), body).expect(content_type);
        assert_eq!(events[0].data, expected, "{content_type}");
        let named = events[0].attributes.iter().map(|each| &*each.value);
        let expected = (!content_type.is_empty()).then(|| format!("{content_type:?}"));
        assert_eq!(
            named.collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn bad_requests_of_binary_mode_are_rejected() {
    let too_deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    for (line, body, expected) in [
        (
            ("ce-id", "2"),
            "",
            "field \"ce-id\": it is there more than once",
        ),
        (
            ("ce-datacontenttype", "text/plain"),
            "",
            "field \"ce-datacontenttype\": there is no such header; the body and its Content-Type \
             carry the data",
        ),
        (
            ("ce-data", "x"),
            "",
            "field \"ce-data\": there is no such header; the body and its Content-Type carry the \
             data",
        ),
        (
            ("ce-trace-parent", "x"),
            "",
            "field \"trace-parent\": the name of a CloudEvents attribute consists of lower-case \
             letters and digits alone",
        ),
        (
            ("ce-subject", "%ff"),
            "",
            "field \"ce-subject\": its value is not UTF-8",
        ),
        (
            ("content-type", "application/json"),
            "{",
            "it is not valid JSON: line 1, column 1: it ends too early; a bracket, a brace or a quotation mark \
             is still open",
        ),
        (
            ("content-type", "application/json"),
            &too_deep,
            "the JSON is nested more than 64 levels deep",
        ),
        (
            ("content-type", "application/json; charset=utf-16"),
            "{}",
            "field \"Content-Type\": the character set \"utf-16\" is not supported; send UTF-8",
        ),
    ] {
        let mut lines = BINARY.to_vec();
        lines.push(line);
        assert_eq!(
            told(decode(&headers(&lines), body.as_bytes())),
            expected,
            "{line:?}"
        );
    }
    for (name, _) in &BINARY[1..] {
        let kept: Vec<_> = BINARY.into_iter().filter(|line| line.0 != *name).collect();
        let attribute = &name[3..];
        assert_eq!(
            told(decode(&headers(&kept), b"")),
            format!("field {attribute:?}: it is missing")
        );
    }
}

#[test]
fn values_of_headers_are_unquoted_and_decoded_once() {
    for (value, expected) in [
        ("plain", "plain"),
        ("Euro%20%E2%82%AC", "Euro €"),
        ("%2541", "%41"),
        ("100%", "100%"),
        ("\"a \\\"b\\\" \\\\ %41\"", "a \"b\" \\ A"),
        ("\"", "\""),
        ("", ""),
    ] {
        let mut lines = BINARY.to_vec();
        lines.push(("ce-subject", value));
        let events = decode(&headers(&lines), b"").expect(value);
        let subject = events[0].subject.as_deref();
        assert_eq!(subject.unwrap_or_default(), expected, "{value}");
        assert_ne!(subject, Some(""), "an empty one is left out");
    }
}
