"""The rule book: which tools are guarded, and what each of them may do at most."""

TOOLS = {
    # Answers the customer. The address is the ticket's own; a model may only add colleagues.
    "helpdesk__reply": {
        "writes": "billing-team-reply",
        "entity": {"field": "ticket_id"},
        "fields": ["ticket_id", "body", "cc"],
        "output_check": {"fields": ["body"]},
        "recipients": ["cc"],
        "recipients_at": ["desk.example"],
        "once": "decision",
    },
    # Writes an internal note. The help desk's own default for `public` is true, so the call must say false.
    "helpdesk__note": {
        "outcomes": ["billing-question", "refund-due", "refund-review"],
        "entity": {"field": "ticket_id"},
        "fields": ["ticket_id", "text"],
        "fixed": {"public": False},
        "recipients": [],
    },
    # Pays back what the ledger says. A model can't name the sum, and one ticket is paid back once.
    "helpdesk__refund": {
        "outcomes": ["refund-due"],
        "entity": {"field": "ticket_id"},
        "fields": ["ticket_id"],
        "recipients": [],
        "once": "case",
    },
}
