CREATE PROCEDURE put_record(a {text}, b {text}, c {long})
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    SELECT name, location, stub FROM records WHERE name = a AND location = b;
    INSERT INTO records (name, location, stub) VALUES (a, b, c) ON DUPLICATE KEY UPDATE stub = c;
    COMMIT;
END
