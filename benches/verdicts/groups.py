"""duckdb: a table of 80 MB is made and grouped, four threads."""
import duckdb

database = duckdb.connect(config={"threads": 4})
database.execute("create table t as select i, hash(i) % 1000 as k, i * 0.5 as x from range(4000000) r(i)")
print(database.execute("select k, sum(x), count(*) from t group by k order by k limit 1").fetchall())
