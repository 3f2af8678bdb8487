// Enqueues from Java with JDBC: in the transaction that keeps the order.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

public class Order {
    // snippet: order
    /** The answer to an enqueue: the event's id, and whether it had been enqueued before. */
    record Event(String id, boolean duplicate) {}

    /** The order and its event, both or neither. The connection does not commit by itself. */
    static Event placeOrder(Connection connection, String order, int total) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("insert into orders (id, total) values (?, ?)")) {
            insert.setString(1, order);
            insert.setInt(2, total);
            insert.executeUpdate();
            Event event = enqueuePlaced(connection, order, total);
            connection.commit();
            return event;
        } catch (SQLException error) {
            connection.rollback();
            throw error;
        }
    }

    static Event enqueuePlaced(Connection connection, String order, int total) throws SQLException {
        String payload = "{\"order\":\"%s\",\"total\":%d,\"text\":\"grüße\"}".formatted(order, total);
        try (PreparedStatement enqueue = connection.prepareStatement(
                "select id, duplicate from posthaste.enqueue(topic => 'orders', event_type => 'order.placed',"
                    + " key => ?, dedupe_key => ?, payload => ?)")) {
            enqueue.setString(1, order);
            enqueue.setString(2, "placed/" + order);
            enqueue.setString(3, payload);
            return answer(enqueue);
        }
    }

    static Event answer(PreparedStatement enqueue) throws SQLException {
        try (ResultSet row = enqueue.executeQuery()) {
            row.next();
            return new Event(row.getString("id"), row.getBoolean("duplicate"));
        }
    }
    // end snippet

    // snippet: bytes
    /** Bytes of any kind, with a media type and headers. */
    static Event enqueueBytes(Connection connection, byte[] body) throws SQLException {
        try (PreparedStatement enqueue = connection.prepareStatement(
                "select id, duplicate from posthaste.enqueue(topic => 'files', payload_bytes => ?,"
                    + " content_type => 'application/x-two', headers => ?::jsonb)")) {
            enqueue.setBytes(1, body);
            enqueue.setString(2, "{\"Trace\":\"t-1\"}");
            return answer(enqueue);
        }
    }
    // end snippet

    static void say(String name, Event event) {
        System.out.printf("{\"case\":\"%s\",\"id\":\"%s\",\"duplicate\":%b}%n", name, event.id(), event.duplicate());
    }

    public static void main(String[] arguments) throws SQLException {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            connection.setAutoCommit(false);
            say("commit", placeOrder(connection, "o-1", 12));
            say("again", enqueuePlaced(connection, "o-1", 12));
            connection.commit();
            connection.createStatement().execute("insert into orders (id, total) values ('o-2', 30)");
            enqueuePlaced(connection, "o-2", 30);
            connection.rollback();
            say("bytes", enqueueBytes(connection, new byte[] {0x00, (byte) 0xff}));
            connection.commit();
            // snippet: refused
            try {
                connection.createStatement().execute("select posthaste.enqueue(topic => '', payload => '{}')");
            } catch (SQLException error) {
                String message = error.getMessage().lines().findFirst().orElse("").replace("ERROR: ", "");
                System.out.printf(
                    "{\"case\":\"refused\",\"sqlstate\":\"%s\",\"message\":\"%s\"}%n", error.getSQLState(), message);
                connection.rollback();
            }
            // end snippet
        }
    }
}
