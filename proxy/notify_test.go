package proxy

import (
	"context"
	"encoding/json"
	"slices"
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
