package lookup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stored returns the objects of a kind from an informer's store, in one namespace or, where that is empty, in all. The cache's own
// List copies each object into the list by reflection, even with UnsafeDisableDeepCopy, which is expensive in a namespace with
// many Services. A reader without informers is listed.
func stored[T client.Object](ctx context.Context, reader client.Reader, kind T, namespace string, list client.ObjectList) ([]T, error) {
	indexer, err := indexerOf(ctx, reader, kind)
	if err != nil {
		return nil, err
	}
	if indexer == nil {
		return listed[T](ctx, reader, namespace, list)
	}
	if namespace == "" {
		return as[T](indexer.List()), nil
	}
	objects, err := indexer.ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("read the informer: %w", err)
	}
	return as[T](objects), nil
}

// Indexed is a reader that is no cache and has the objects of a kind as one has them.
type Indexed interface {
	// Indexer has an index by namespace.
	Indexer(kind client.Object) toolscache.Indexer
}

// indexerOf returns the store behind a kind's informer, which it starts and waits for as List does; nil where the reader
// has none.
func indexerOf(ctx context.Context, reader client.Reader, kind client.Object) (toolscache.Indexer, error) {
	if indexed, ok := reader.(Indexed); ok {
		return indexed.Indexer(kind), nil
	}
	informers, ok := reader.(cache.Informers)
	if !ok {
		return nil, nil
	}
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("start the informer: %w", err)
	}
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		return shared.GetIndexer(), nil
	}
	return nil, nil
}

func listed[T client.Object](ctx context.Context, reader client.Reader, namespace string, list client.ObjectList) ([]T, error) {
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	return as[T](items), nil
}

func as[T any, E any](objects []E) []T {
	typed := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := any(o).(T); ok {
			typed = append(typed, t)
		}
	}
	return typed
}
