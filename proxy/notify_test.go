package proxy

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// memoryNotifications is a node whose targets take nothing but tests.
type memoryNotifications struct{ targets []NotifyTarget }

func (m *memoryNotifications) Targets() []NotifyTarget { return m.targets }

func (m *memoryNotifications) AddTarget(_ context.Context, t NotifyTarget) (NotifyTarget, error) {
	added := time.Now()
	t.ID, t.Kind, t.Added = "a", "webhook", &added
	m.targets = append(m.targets, t)
	t.Secret = "whsec_a2V5"
	return t, nil
}

func (m *memoryNotifications) find(id string) (int, error) {
	if i := slices.IndexFunc(m.targets, func(t NotifyTarget) bool { return t.ID == id }); i >= 0 {
		return i, nil
	}
	return 0, ErrNoTarget
}

func (m *memoryNotifications) RemoveTarget(id string) error {
	i, err := m.find(id)
	if err == nil {
		m.targets = slices.Delete(m.targets, i, i+1)
	}
	return err
}

func (m *memoryNotifications) TestTarget(_ context.Context, id string) error {
	_, err := m.find(id)
	return err
}

func (m *memoryNotifications) DeadLetters(id string) ([]DeadLetter, error) {
	_, err := m.find(id)
	return []DeadLetter{{time.Now(), "it answered 400", json.RawMessage(`{"number":1}`)}}, err
}

// A person is told that a target has taken a test, by a message that no other address can make up.
func TestATestOfATargetIsConfirmed(t *testing.T) {
	b := newTestServer(t, func(c *Config) {
		c.Notifications, c.Keywords = &memoryNotifications{targets: []NotifyTarget{{ID: "a"}}}, &memoryKeywords{}
	})
	_, to, _ := b.post(notifyTestPath, url.Values{"id": {"a"}})
	if page := body(t, b.ask("GET", to)); !strings.Contains(page, "The target a has taken the message.") {
		t.Errorf("%s shows %s", to, page)
	}
	if page := body(t, b.ask("GET", NotifyPath+"?tested=a")); strings.Contains(page, "has taken") {
		t.Errorf("the address alone says that a test was taken: %s", page)
	}
}
