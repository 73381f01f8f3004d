// sarama consumes or produces with Sarama, as its examples show:
//
//	sarama consume|produce BOOTSTRAP TOPIC GROUP
//
// It authenticates with SASL/PLAIN. The consumer prints the value of every record until SIGTERM;
// the idempotent producer writes thirty records and ends.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

const (
	user    = "kwire"
	records = 30
	batch   = 5
	retries = 100 // as Java's producer, which has no limit
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: sarama consume|produce BOOTSTRAP TOPIC GROUP")
	}
	way, bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.SASL.Enable = true
	config.Net.SASL.User = user
	config.Net.SASL.Password = user
	if way == "consume" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
		consume(bootstrap, topic, group, config)
	} else {
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Producer.Return.Successes = true
		config.Producer.Partitioner = sarama.NewManualPartitioner
		config.Producer.Retry.Max = retries
		config.Net.MaxOpenRequests = 1
		produce(bootstrap, topic, config)
	}
}

type printer struct{}

func (printer) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (printer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (printer) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			value, _, _ := bytes.Cut(message.Value, []byte("\n"))
			if message.Value == nil {
				value = []byte("null")
			}
			fmt.Printf("%s\n", value)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func consume(bootstrap, topic, group string, config *sarama.Config) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		err := client.Consume(ctx, []string{topic}, printer{})
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		if err != nil { // the application joins the group again
			log.Print(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}

func produce(bootstrap, topic string, config *sarama.Config) {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		log.Fatal(err)
	}
	for first := 0; first < records; first += batch {
		var together []*sarama.ProducerMessage
		for number := first; number < first+batch; number++ {
			value := sarama.StringEncoder(fmt.Sprintf("record %03d", number))
			together = append(together, &sarama.ProducerMessage{Topic: topic, Value: value})
		}
		if err := producer.SendMessages(together); err != nil {
			log.Fatal(err)
		}
	}
	if err := producer.Close(); err != nil {
		log.Fatal(err)
	}
}
