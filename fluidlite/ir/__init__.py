"""What a program is: data, editing, checking, printing, the wire format."""
