"""An event as people write it by hand."""

EVENT = {
    "id": "plain",
    "subject": "/orders/7",
    "eventType": "Order.Paid",
    "eventTime": "2026-11-21T06:40:53Z",
    "data": {},
    "dataVersion": "1",
}
