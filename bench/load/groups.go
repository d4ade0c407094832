package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	heartbeat        = 100 * time.Millisecond // often, so that the broker's time is measured and not this
	offsetsPerCommit = 10
	askedAtOnce      = 16
	askAgainAfter    = 5 * time.Millisecond
)

// topics makes j.topics topics of one partition each: j.topic-0, j.topic-1, ...
func topics(ctx context.Context, j job) (result, error) {
	client, err := newClient(kgo.SeedBrokers(j.broker))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 60_000
	for i := range j.topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = fmt.Sprintf("%s-%d", j.topic, i)
		topic.NumPartitions = 1
		topic.ReplicationFactor = 1
		request.Topics = append(request.Topics, topic)
	}
	began := time.Now()
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return result{}, err
	}
	for _, topic := range answer.Topics {
		err = errors.Join(err, kerr.ErrorForCode(topic.ErrorCode))
	}
	return summary(j.topics, time.Since(began)), err
}

// join lets j.members clients into a new group at once, each for a partition of its own with one record in it,
// and waits until every one has read it. Latencies are those of the members' first records.
func join(ctx context.Context, j job) (result, error) {
	if err := oneInEach(ctx, j); err != nil {
		return result{}, err
	}
	clients := make([]*kgo.Client, j.members)
	took := make([]time.Duration, j.members)
	failures := make([]error, j.members)
	var all sync.WaitGroup
	began := time.Now()
	for i := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			clients[i], failures[i] = newClient(
				kgo.SeedBrokers(j.broker),
				kgo.ConsumerGroup(j.group),
				kgo.ConsumeTopics(j.topic),
				kgo.Balancers(kgo.RangeBalancer()),
				kgo.HeartbeatInterval(heartbeat),
				kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			for seen := 0; seen == 0 && failures[i] == nil; {
				fetches := clients[i].PollFetches(ctx)
				seen, failures[i] = fetches.NumRecords(), ctx.Err()
			}
			took[i] = time.Since(began)
		}()
	}
	all.Wait()
	measured := summary(j.members, time.Since(began))
	for _, client := range clients {
		if client != nil {
			client.Close()
		}
	}
	return withLatencies(measured, took), errors.Join(failures...)
}

func oneInEach(ctx context.Context, j job) error {
	client, err := producer(j, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range j.members {
		record := kgo.Record{Value: make([]byte, j.size), Partition: int32(i)}
		if err := client.ProduceSync(ctx, &record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// commits lets each of j.groups groups commit ten offsets of its own choice of topics, j.records requests in all.
func commits(ctx context.Context, j job) (result, error) {
	return repeat(ctx, j, func(client *kgo.Client, number int) (int16, error) {
		request := kmsg.NewPtrOffsetCommitRequest()
		request.Group = groupOf(j, number)
		request.Generation = -1
		for i := range offsetsPerCommit {
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Offset = int64(number)
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = topicOf(j, number, i)
			topic.Partitions = append(topic.Partitions, partition)
			request.Topics = append(request.Topics, topic)
		}
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return 0, err
		}
		return answer.Topics[0].Partitions[0].ErrorCode, nil
	})
}

// offsets fetches the committed offsets of every group, j.records times in all, and counts an answer without it as wrong.
func offsets(ctx context.Context, j job) (result, error) {
	return repeat(ctx, j, func(client *kgo.Client, number int) (int16, error) {
		request := kmsg.NewPtrOffsetFetchRequest()
		request.Group = groupOf(j, number)
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = request.Group
		request.Groups = append(request.Groups, group)
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return 0, err
		}
		found := answer.Groups[0]
		if found.ErrorCode == 0 && len(found.Topics) != offsetsPerCommit {
			return 0, fmt.Errorf("%s has %d offsets", found.Group, len(found.Topics))
		}
		return found.ErrorCode, nil
	})
}

func groupOf(j job, number int) string { return fmt.Sprintf("%s-%d", j.group, number%j.groups) }

// A group always commits the same ten topics.
func topicOf(j job, number, i int) string {
	return fmt.Sprintf("%s-%d", j.topic, (number%j.groups*offsetsPerCommit+i)%j.topics)
}

// repeat sends j.records requests, some at once, each again while the coordinator is unavailable or loading.
func repeat(ctx context.Context, j job, send func(*kgo.Client, int) (int16, error)) (result, error) {
	client, err := newClient(kgo.SeedBrokers(j.broker), kgo.RetryTimeout(time.Minute))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	took := make([]time.Duration, j.records)
	failures := make([]error, askedAtOnce)
	var all sync.WaitGroup
	began := time.Now()
	for lane := range askedAtOnce {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := lane; number < j.records && failures[lane] == nil; number += askedAtOnce {
				asked := time.Now()
				failures[lane] = untilAnswered(ctx, client, number, send)
				took[number] = time.Since(asked)
			}
		}()
	}
	all.Wait()
	return withLatencies(summary(j.records, time.Since(began)), took), errors.Join(failures...)
}

func untilAnswered(ctx context.Context, client *kgo.Client, number int, send func(*kgo.Client, int) (int16, error)) error {
	for {
		code, err := send(client, number)
		if err == nil {
			err = kerr.ErrorForCode(code)
		}
		if err == nil || !kerr.IsRetriable(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(askAgainAfter)
	}
}

// withLatencies adds the middle latency and the one that a hundredth is above; it sorts them.
func withLatencies(measured result, took []time.Duration) result {
	if len(took) == 0 {
		return measured
	}
	slices.Sort(took)
	measured.P50Micros = float64(took[len(took)/2].Nanoseconds()) / 1e3
	measured.P99Micros = float64(took[len(took)*99/100].Nanoseconds()) / 1e3
	return measured
}
