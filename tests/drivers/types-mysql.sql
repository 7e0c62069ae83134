DROP TABLE IF EXISTS vendor;
CREATE TABLE vendor (id INT PRIMARY KEY, v VECTOR(3), j JSON, ip VARBINARY(16), seen INT INVISIBLE DEFAULT 5);
INSERT INTO vendor (id, v, j, ip) VALUES (1, TO_VECTOR('[1, -2.5, 0.125]'), JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 'n', 1e10), INET6_ATON('2001:db8::1')), (2, NULL, NULL, NULL);
SELECT * FROM vendor ORDER BY id;
SELECT id, VECTOR_TO_STRING(v) AS v, j->>'$.n' AS n, INET6_NTOA(ip) AS ip, seen FROM vendor ORDER BY id;
SELECT * FROM JSON_TABLE('[{"a": 1}, {"a": 2}]', '$[*]' COLUMNS (a INT PATH '$.a')) AS t;
TABLE vendor LIMIT 1;
