package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicsPerRequest = 5
	pollEvery        = 2 * time.Millisecond
)

// spread makes j.topics topics of j.partitions partitions each, some in every request, and waits until all of them
// have leaders.
func spread(ctx context.Context, j job) (result, error) {
	client, err := newClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	began := time.Now()
	for first := 0; first < j.topics; first += topicsPerRequest {
		request := kmsg.NewPtrCreateTopicsRequest()
		request.TimeoutMillis = 60_000
		for i := first; i < min(first+topicsPerRequest, j.topics); i++ {
			request.Topics = append(request.Topics, topicToCreate(j, numbered(j, i)))
		}
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return result{}, err
		}
		for _, topic := range answer.Topics {
			// What takes longer than one waits for it still comes.
			if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && err != kerr.RequestTimedOut {
				return result{}, fmt.Errorf("%s: %w", topic.Topic, err)
			}
		}
	}
	line, err := dial(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer line.close()
	for i := range j.topics {
		if err := again(ctx, func() (bool, error) { return line.isLed(numbered(j, i), j.partitions) }); err != nil {
			return result{}, err
		}
	}
	return summary(j.topics*j.partitions, time.Since(began)), nil
}

func numbered(j job, number int) string { return fmt.Sprintf("%s-%d", j.topic, number) }

// again repeats a request until it succeeds, fails, or the deadline passes.
func again(ctx context.Context, try func() (bool, error)) error {
	for {
		done, err := try()
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(pollEvery)
	}
}

// isLed is whether the broker says that all of a topic's partitions have a leader.
func (t *talk) isLed(topic string, partitions int) (bool, error) {
	answer := metadataAnswer()
	if err := t.call(metadataOf(topic), answer); err != nil {
		return false, err
	}
	found := answer.Topics[0]
	led := 0
	for _, partition := range found.Partitions {
		if partition.ErrorCode == 0 && partition.Leader >= 0 {
			led++
		}
	}
	return found.ErrorCode == 0 && led == partitions, nil
}

// touch appends a batch of j.each records to every partition of every topic, a topic in a request.
func touch(ctx context.Context, j job) (result, error) {
	made, err := newContent(j)
	if err != nil {
		return result{}, err
	}
	made.firstMillis = time.Now().UnixMilli()
	batches := make([][]byte, j.partitions)
	for i := range batches {
		batches[i] = made.appendBatch(nil, 0, j.each)
	}
	line, err := dial(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer line.close()
	answer := produceAnswer()
	began := time.Now()
	for i := range j.topics {
		if err := line.call(produceTo(numbered(j, i), batches...), answer); err != nil {
			return result{}, err
		}
		for _, partition := range answer.Topics[0].Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return result{}, fmt.Errorf("%s-%d: %w", numbered(j, i), partition.Partition, err)
			}
		}
	}
	return summary(j.topics*j.partitions*j.each, time.Since(began)), nil
}

// serving watches a broker that is just starting: it says "first" when a record of a partition in the middle has
// been fetched, and ends when every partition has returned its end, which must be at j.records.
func serving(ctx context.Context, j job) (result, error) {
	began := time.Now()
	line, err := dialWhenUp(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer func() { line.close() }()
	middle := numbered(j, j.topics/2)
	err = again(ctx, func() (bool, error) {
		served, err := line.isServed(middle, j.partitions)
		if err != nil && ctx.Err() == nil { // It listens before it serves: some close the connection.
			line.close()
			line, err = dialWhenUp(ctx, j.broker)
		}
		return served, err
	})
	if err != nil {
		return result{}, err
	}
	fmt.Println("first")
	for i := range j.topics {
		if err := again(ctx, func() (bool, error) { return line.isComplete(numbered(j, i), j) }); err != nil {
			return result{}, err
		}
	}
	return summary(j.topics*j.partitions, time.Since(began)), nil
}

func dialWhenUp(ctx context.Context, broker string) (*talk, error) {
	var line *talk
	err := again(ctx, func() (bool, error) {
		dialled, err := dial(ctx, broker)
		line = dialled
		return err == nil, nil
	})
	return line, err
}

func (t *talk) isServed(topic string, partitions int) (bool, error) {
	if led, err := t.isLed(topic, partitions); !led || err != nil {
		return false, err
	}
	answer := fetchAnswer()
	if err := t.call(fetchFrom(topic, 0), answer); err != nil {
		return false, err
	}
	if len(answer.Topics) == 0 || len(answer.Topics[0].Partitions) == 0 {
		return false, nil
	}
	found := answer.Topics[0].Partitions[0]
	return holds(found.RecordBatches, found.ErrorCode, 0) == nil, nil
}

// isComplete is whether all partitions of a topic answer; one that has fewer or more records is an error.
func (t *talk) isComplete(topic string, j job) (bool, error) {
	answer := offsetsAnswer()
	if err := t.call(offsetsOf(topic, j.partitions, -1), answer); err != nil {
		return false, err
	}
	for _, partition := range answer.Topics[0].Partitions {
		if partition.ErrorCode != 0 {
			return false, nil
		}
		if partition.Offset != int64(j.records) {
			return false, fmt.Errorf("%s-%d ends at %d instead of %d", topic, partition.Partition, partition.Offset, j.records)
		}
	}
	return len(answer.Topics[0].Partitions) == j.partitions, nil
}
