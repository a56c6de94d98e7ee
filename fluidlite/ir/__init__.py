"""Programs: data, editing, checking, printing, the wire format."""
