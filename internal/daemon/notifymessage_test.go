package daemon

import (
	"strings"
	"testing"

	"tidings/internal/news"
)

// A summary is plain text, also if it looks like markup.
func TestASummaryIsNoMarkup(t *testing.T) {
	m := messageOf("a", new(news.NewEvent(news.Event{}, []byte(`{"title":"T","summary":"<img src=x> & <b>tide</b>"}`))))
	if strings.Contains(m.HTML, "<") || m.Text != "<img src=x> & <b>tide</b>" {
		t.Errorf("HTML %q, text %q", m.HTML, m.Text)
	}
}
