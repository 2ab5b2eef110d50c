package proxy

import (
	"container/list"
	"sync"
)

// An lru keeps values up to a total cost. At the limit it forgets the values that were not used for longest. It is
// safe for concurrent use.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	limit int
	cost  int
	items map[K]*list.Element
	order *list.List // of lruItem, most recently used first
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, items: map[K]*list.Element{}, order: list.New()}
}

func (c *lru[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(lruItem[K, V]).value, true
}

// put stores a value. A value that alone costs more than the limit is not stored, and neither is the old value of
// its key.
func (c *lru[K, V]) put(key K, value V, cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.drop(e)
	}
	if cost > c.limit {
		return
	}
	c.items[key] = c.order.PushFront(lruItem[K, V]{key, value, cost})
	for c.cost += cost; c.cost > c.limit; {
		c.drop(c.order.Back())
	}
}

// take returns a value and forgets it.
func (c *lru[K, V]) take(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if ok {
		value = e.Value.(lruItem[K, V]).value
		c.drop(e)
	}
	return value, ok
}

func (c *lru[K, V]) drop(e *list.Element) {
	it := c.order.Remove(e).(lruItem[K, V])
	delete(c.items, it.key)
	c.cost -= it.cost
}
