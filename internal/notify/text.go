package notify

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxText bounds the text of a message to a service in bytes. Pushover takes 1,024, the others more.
	maxText = 1_000
	// maxExcerpt bounds what is shown of an item, and maxTitle its title, in bytes.
	maxExcerpt = 300
	maxTitle   = 200
)

// name returns the source and the title of a message, in one line.
func (m *Message) name() string {
	return excerpt(m.Source, maxTitle/2) + ": " + excerpt(m.Title, maxTitle)
}

// body returns the text of a message without its title.
func (m *Message) body() string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(m.Text), m.Title))
}

// brief returns messages as one text of at most maxText bytes: one with the beginning of its text, several by their titles.
func brief(messages []Message) string {
	if len(messages) == 1 {
		m := &messages[0]
		lines := []string{m.name()}
		for _, l := range []string{excerpt(m.body(), maxExcerpt), link(m, maxText/3)} {
			if l != "" {
				lines = append(lines, l)
			}
		}
		return strings.Join(lines, "\n")
	}
	text := headline(messages)
	for i := range messages {
		m := &messages[i]
		next := "\n" + m.name()
		if l := link(m, maxText/3); l != "" {
			next += "\n" + l
		}
		rest := fmt.Sprintf("\nand %d more", len(messages)-i)
		if len(text)+len(next)+len(rest) > maxText {
			return text + rest
		}
		text += next
	}
	return text
}

// headline says how many messages there are.
func headline(messages []Message) string {
	if len(messages) == 1 {
		return messages[0].name()
	}
	return fmt.Sprintf("%d pieces of news", len(messages))
}

// link returns the address of a message, unless it is too long to be of use.
func link(m *Message, longest int) string {
	if len(m.Link) > longest {
		return ""
	}
	return oneLine(m.Link)
}

// excerpt returns the beginning of a text, in one line of at most so many bytes.
func excerpt(text string, longest int) string {
	text = oneLine(text)
	if len(text) <= longest {
		return text
	}
	end := longest - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSpace(text[:end]) + "…"
}

// oneLine makes a text a single line without control characters.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
}

const (
	// maxChatLine bounds a line of a message in a chat, and maxChat all lines of its text, in bytes. A telephone shows about
	// twenty lines.
	maxChatLine = 500
	maxChat     = 1_500
)

// Chat returns a message for a chat: its source and title, its link, and the beginning of its text. The lines of a text that
// tells what was added to a page and removed from it stay apart.
func (m *Message) Chat() string {
	lines := []string{m.Line()}
	size := 0
	for line := range strings.Lines(m.body()) {
		if line = excerpt(line, maxChatLine); line == "" {
			continue
		}
		if size += len(line); size > maxChat {
			lines = append(lines, "…")
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Line returns the source, the title and, in a second line, the link of a message.
func (m *Message) Line() string {
	if l := link(m, maxChatLine); l != "" {
		return m.name() + "\n" + l
	}
	return m.name()
}

// SourceLine returns the source of a message in one line.
func (m *Message) SourceLine() string { return excerpt(m.Source, maxTitle/2) }
